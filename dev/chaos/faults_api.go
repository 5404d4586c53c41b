package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"
)

// share of requests that fail.
const share = 0.1

// killBetween lets the API server take a write to a target, and kills its writer before it hears of it.
func killBetween(ctx context.Context, w *world) error {
	pod, holder, err := w.leader(ctx, "")
	if err != nil {
		return err
	}
	f, killed := w.fronts[pod], make(chan error, 1)
	f.set(func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
		if commits(r) {
			rw = &tripwire{rw, func() { offer(killed, w.kill(pod, holder)) }}
		}
		next.ServeHTTP(rw, r)
	})
	defer f.clear()
	if err := w.meet(ctx, killed); err != nil {
		return err
	}
	_, _, err = w.leader(ctx, holder)
	return err
}

// meet waits for a write, and changes the load when there is nothing to write for a while. The channel tells how that went.
func (w *world) meet(ctx context.Context, met <-chan error) error {
	for range 6 {
		select {
		case err := <-met:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(30 * time.Second):
			w.busy = !w.busy
			w.traffic()
		}
	}
	return errors.New("waiting for a write to meet: there was none in 3 minutes")
}

// offer an outcome, if nobody did.
func offer(to chan<- error, err error) {
	select {
	case to <- err:
	default:
	}
}

// tripwire acts before an answer of success is passed on.
type tripwire struct {
	http.ResponseWriter
	trip func()
}

func (t *tripwire) WriteHeader(code int) {
	if code == http.StatusOK {
		t.trip()
	}
	t.ResponseWriter.WriteHeader(code)
}

// Unwrap lets answers be flushed.
func (t *tripwire) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// lateWrite holds a write to a target, freezes its writer, and delivers the write when another decider leads.
func lateWrite(ctx context.Context, w *world) error {
	pod, holder, err := w.leader(ctx, "")
	if err != nil {
		return err
	}
	f, delivered := w.fronts[pod], make(chan error, 1)
	var met atomic.Bool
	f.set(func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
		if !commits(r) || !met.CompareAndSwap(false, true) {
			next.ServeHTTP(rw, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		w.strike(holder)
		err = errors.Join(err, w.Runner.Signal(pod, syscall.SIGSTOP))
		_, _, failed := w.leader(ctx, holder)
		late := r.Clone(context.WithoutCancel(r.Context())) //nolint:contextcheck // its writer may be gone
		late.Body = io.NopCloser(bytes.NewReader(body))
		answer := &answer{header: make(http.Header)}
		next.ServeHTTP(answer, late)
		say("  the late write was answered %d", answer.code)
		if answer.code < 400 {
			failed = errors.Join(failed, fmt.Errorf("%w: a write of a leader that was replaced was accepted", errBroken))
		}
		offer(delivered, errors.Join(err, failed, w.Runner.Signal(pod, syscall.SIGCONT)))
	})
	defer f.clear()
	return w.meet(ctx, delivered)
}

// answer keeps the code of an answer that nobody waits for.
type answer struct {
	header http.Header
	code   int
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) Write(p []byte) (int, error) { return len(p), nil }
func (a *answer) WriteHeader(code int)        { a.code = code }

// cutOffLeader swallows what the leader asks and what it is told. It believes in its lease for as long as it may.
func cutOffLeader(ctx context.Context, w *world) error {
	pod, holder, err := w.leader(ctx, "")
	if err != nil {
		return err
	}
	f := w.fronts[pod]
	w.strike(holder)
	f.watches.shut()
	f.set(func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
		<-r.Context().Done()
	})
	defer f.watches.open()
	defer f.clear()
	_, _, err = w.leader(ctx, holder)
	return err
}

// failAPI fails a share of the deciders' requests.
func failAPI(ctx context.Context, w *world) error {
	for _, f := range w.fronts {
		f.set(func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
			if rand.Float64() >= share {
				next.ServeHTTP(rw, r)
				return
			}
			code := http.StatusInternalServerError
			switch {
			case r.Method == http.MethodGet:
			case rand.IntN(3) == 0:
				code = http.StatusConflict
			case rand.IntN(2) == 0: // done all the same, and the answer is lost
				next.ServeHTTP(&answer{header: make(http.Header)}, r)
			}
			http.Error(rw, "chaos", code)
		})
		defer f.clear()
	}
	return pause(ctx, cutOff)
}

// stallWatches holds everything that watches tell.
func stallWatches(ctx context.Context, w *world) error {
	for _, f := range w.fronts {
		f.watches.shut()
		defer f.watches.open()
	}
	return pause(ctx, cutOff)
}
