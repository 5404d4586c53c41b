package invariants

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// Sources of a History.
type Sources struct {
	Targets, Scalers dynamic.ResourceInterface // of one namespace
	Leases           dynamic.ResourceInterface // of the namespace of the deciders
	Lease            string                    // its name
	// Admitted says whether every instance of a target's roles, up to these counts, was seen with quota between two times.
	Admitted func(name string, counts workerv1.Vector, from, to time.Time) bool
	// Blind says whether a role of a target could not be observed in full at a time, nor shortly before.
	Blind func(name, role string, at time.Time) bool
	// Floor is the highest count that the observations of a role asked for within the scale-down window before a decision that was
	// stored at a time; false where that is not known.
	Floor func(name, role, decision string, stored time.Time) (int32, bool)
}

// History holds every version of the targets and scalers of a namespace and of the deciders' Lease. Versions are in the order of
// the API server's resource versions, which all kinds share.
type History struct {
	sources Sources
	done    sync.WaitGroup
	cancel  context.CancelFunc

	mu      sync.Mutex
	targets stream[target.Deployment]
	scalers stream[*workerv1.ModelDeploymentScaler]
	leases  stream[*coordinationv1.Lease]
	wrong   map[string]error // what could not be read, by version
}

// Record watches until ctx ends, or Stop, which must be called.
func Record(ctx context.Context, s Sources) *History {
	ctx, cancel := context.WithCancel(ctx)
	h := &History{sources: s, cancel: cancel, wrong: make(map[string]error)}
	h.done.Go(func() {
		follow(ctx, s.Targets, h.locked(h.targets.gap), func(u *unstructured.Unstructured) { h.add(u, h.addTarget) })
	})
	h.done.Go(func() {
		follow(ctx, s.Scalers, h.locked(h.scalers.gap), func(u *unstructured.Unstructured) { h.add(u, h.addScaler) })
	})
	h.done.Go(func() {
		follow(ctx, s.Leases, h.locked(h.leases.gap), func(u *unstructured.Unstructured) { h.add(u, h.addLease) })
	})
	return h
}

// Stop ends the watches.
func (h *History) Stop() {
	h.cancel()
	h.done.Wait()
}

// Versions is how many of targets were recorded.
func (h *History) Versions() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.targets.lines {
		n += len(l)
	}
	return n
}

// Current waits until the newest version of every object is recorded, so that what is checked then is all there is.
func (h *History) Current(ctx context.Context) error {
	for _, client := range []dynamic.ResourceInterface{h.sources.Targets, h.sources.Scalers, h.sources.Leases} {
		list, err := client.List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("asking for the newest versions: %w", err)
		}
		for i := range list.Items {
			for !h.has(&list.Items[i]) {
				pause(ctx, retry)
				if ctx.Err() != nil {
					return fmt.Errorf("waiting for version %s of %s: %w", list.Items[i].GetResourceVersion(), list.Items[i].GetName(), ctx.Err())
				}
			}
		}
	}
	return nil
}

func (h *History) has(u *unstructured.Unstructured) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, uid := number(u), string(u.GetUID())
	return u.GetKind() == "Lease" && u.GetName() != h.sources.Lease ||
		h.targets.lines[uid].newest() >= n || h.scalers.lines[uid].newest() >= n || h.leases.lines[uid].newest() >= n
}

func (h *History) locked(call func()) func() {
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		call()
	}
}

func (h *History) add(u *unstructured.Unstructured, add func(*unstructured.Unstructured) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := add(u); err != nil {
		h.wrong[u.GetResourceVersion()] = fmt.Errorf("reading version %s of %s: %w", u.GetResourceVersion(), u.GetName(), err)
	}
}

func (h *History) addTarget(u *unstructured.Unstructured) error {
	d, err := target.Parse(u)
	if err == nil {
		h.targets.put(u, d)
	}
	return err
}

func (h *History) addScaler(u *unstructured.Unstructured) error {
	s := &workerv1.ModelDeploymentScaler{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, s)
	if err == nil {
		h.scalers.put(u, s)
	}
	return err
}

func (h *History) addLease(u *unstructured.Unstructured) error {
	if u.GetName() != h.sources.Lease {
		return nil
	}
	l := &coordinationv1.Lease{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, l)
	if err == nil {
		h.leases.put(u, l)
	}
	return err
}
