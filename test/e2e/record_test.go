package e2e

import (
	"context"
	"slices"
	"sync"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"gpustack.ai/model-deployment-scaler/internal/target"
)

// record holds every version of a target since it was begun.
type record struct {
	s    *stage
	name string
	stop func()

	mu       sync.Mutex
	versions []target.Deployment
}

// record watches a target until end is called; connections that break are taken up where they broke.
func (s *stage) record(name string) *record {
	s.t.Helper()
	r := &record{s: s, name: name}
	first, err := s.Targets(s.namespace).Get(s.t.Context(), name, metav1.GetOptions{})
	require.NoError(s.t, err)
	r.add(first)
	ctx, cancel := context.WithCancel(context.Background())
	w, err := watchtools.NewRetryWatcherWithContext(ctx, first.GetResourceVersion(), &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = "metadata.name=" + name
			return s.Targets(s.namespace).Watch(ctx, o)
		},
	})
	require.NoError(s.t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range w.ResultChan() {
			if u, ok := event.Object.(*unstructured.Unstructured); ok {
				r.add(u)
			}
		}
	}()
	r.stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	s.t.Cleanup(r.stop)
	return r
}

func (r *record) add(u *unstructured.Unstructured) {
	d, err := target.Parse(u)
	if err != nil {
		r.s.t.Errorf("a version of the target cannot be read: %v", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.versions = append(r.versions, d)
}

// whole waits until the version that the target has now is on record: a watch may tell later than a read.
func (r *record) whole() {
	r.s.t.Helper()
	newest := r.s.deployment(r.name).ResourceVersion
	r.s.eventually("version "+newest+" is on record", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return slices.ContainsFunc(r.versions, func(d target.Deployment) bool { return d.ResourceVersion == newest })
	})
}
