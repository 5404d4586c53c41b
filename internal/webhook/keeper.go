package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"gpustack.ai/model-deployment-scaler/internal/certs"
)

const (
	// settleTime is how long a copy must have seen a new authority in both configurations before it lets it sign what all
	// serve. API servers notice a changed configuration within a second; one that is cut off for longer cannot write, either.
	settleTime = 30 * time.Second
	// checkPeriod is how often certificates are looked at when nothing happens.
	checkPeriod = time.Minute
	retryPeriod = 2 * time.Second
	passTimeout = 10 * time.Second
)

// keeper makes the webhook's own certificates, in agreement with the other copies: what is kept is in a Secret, which the
// first to write it decides; caBundle of both webhook configurations is what the Secret says is to be trusted; every copy
// serves the Secret's leaf. It writes nothing else, and creates and deletes nothing.
type keeper struct {
	secrets dynamic.ResourceInterface
	configs []configuration
	source  *certs.Source
	settle  time.Duration
	log     *zap.Logger
	poked   chan struct{}

	trusted []byte    // authorities that all configurations held in the last pass
	since   time.Time // when they were first seen there
	last    string    // error logged last, so that a lasting fault is logged once

	mu    sync.Mutex
	ready error
}

func newKeeper(config *rest.Config, o *Options, log *zap.Logger) (*keeper, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &keeper{
		secrets: client.Resource(secretResource).Namespace(o.Namespace), configs: configurations(client), source: certs.Empty(log),
		settle: o.settle, log: log, poked: make(chan struct{}, 1), ready: errors.New("the certificates were not read yet"),
	}, nil
}

// Run keeps the certificates until ctx ends.
func (k *keeper) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return k.watch(ctx, k.secrets, secretName) })
	for _, c := range k.configs {
		g.Go(func() error { return k.watch(ctx, c.client, configurationName) })
	}
	g.Go(func() error { return k.loop(ctx) })
	return g.Wait()
}

// loop makes a pass whenever something has changed, and from time to time; at most one a second, should somebody else keep on
// changing what a pass writes.
func (k *keeper) loop(ctx context.Context) error {
	limit := rate.NewLimiter(rate.Every(time.Second), 5)
	for limit.Wait(ctx) == nil {
		next := min(checkPeriod, k.settle+time.Second) // in time for an authority that has settled
		if !k.note(k.pass(ctx)) {
			next = retryPeriod
		}
		select {
		case <-ctx.Done():
		case <-k.poked:
		case <-time.After(next):
		}
	}
	return nil
}

// note says whether a pass went well. A copy that lost the race to write looks again.
func (k *keeper) note(err error) bool {
	if err == nil {
		k.last = ""
		return true
	}
	if k.source.Cert() == nil {
		k.setReady(err)
	}
	if message := err.Error(); message != k.last && !apierrors.IsConflict(err) {
		k.log.Warn("keeping certificates failed; it is tried again", zap.Error(err))
		k.last = message
	}
	return false
}

// pass brings Secret, configurations and what is served into agreement.
func (k *keeper) pass(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	found, err := k.read(ctx)
	if err != nil {
		return err
	}
	if cert := k.source.Cert(); cert != nil {
		k.setReady(found.accepts(cert))
	}
	kept, err := k.keep(ctx, found)
	if err != nil {
		return err
	}
	// Those who verify come first: a leaf that they do not know yet helps nobody.
	if err := k.publish(ctx, found, kept.Authorities); err != nil {
		return err
	}
	if err := k.source.Use(kept.Cert, kept.Key); err != nil {
		return err
	}
	k.setReady(nil)
	return nil
}

// settled says whether the configurations have held these authorities for long enough, as far as this copy has seen.
func (k *keeper) settled(found registered, authorities []byte) bool {
	switch {
	case !found.hold(authorities):
		k.trusted = nil
	case !bytes.Equal(k.trusted, authorities):
		k.trusted, k.since = authorities, time.Now()
	}
	return k.trusted != nil && time.Since(k.since) >= k.settle
}

// check is a readiness check: a certificate is served that the configurations accept.
func (k *keeper) check() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return errors.Join(k.ready, k.source.Check())
}

func (k *keeper) setReady(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ready = err
}

// watch pokes the loop when the object of that name changes; what it reads by itself then is what counts.
func (k *keeper) watch(ctx context.Context, client dynamic.ResourceInterface, name string) error {
	for ctx.Err() == nil {
		k.follow(ctx, client, name)
		select {
		case <-ctx.Done():
		case <-time.After(retryPeriod):
		}
	}
	return nil
}

func (k *keeper) follow(ctx context.Context, client dynamic.ResourceInterface, name string) {
	w, err := client.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()})
	if err != nil {
		k.log.Debug("watching for certificates failed; it is tried again", zap.String("name", name), zap.Error(err))
		return
	}
	defer w.Stop()
	for range w.ResultChan() {
		select {
		case k.poked <- struct{}{}:
		default: // a pass is due already
		}
	}
}
