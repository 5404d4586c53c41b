package e2e

import (
	"context"
	"sync"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// record holds every version of a target since it was begun.
type record struct {
	s    *stage
	stop func()

	mu       sync.Mutex
	versions []target.Deployment
}

// record watches a target until end is called; connections that break are taken up where they broke.
func (s *stage) record(name string) *record {
	s.t.Helper()
	r := &record{s: s}
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

// orderly ends the record and requires that every version kept bounds and steps, that counts moved with a decision that says
// so, and that terms and decisions went forward. It returns the decisions.
func (r *record) orderly(least, most, step int32) (decisions []fence.DecisionID) {
	t := r.s.t
	t.Helper()
	r.stop()
	require.Greater(t, len(r.versions), 1, "nothing was recorded")
	term, epochs := int64(0), map[string]bool{}
	for i, now := range r.versions {
		count := now.Roles[0].Replicas
		require.GreaterOrEqual(t, count, least)
		require.LessOrEqual(t, count, most)
		if binding := now.Annotations[fence.BindingAnnotation]; binding != "" {
			b, err := fence.ParseBinding(binding)
			require.NoError(t, err)
			require.GreaterOrEqual(t, b.Term, term, "terms go forward")
			term = b.Term
		}
		if i == 0 || count == r.versions[i-1].Roles[0].Replicas {
			continue
		}
		require.LessOrEqual(t, max(count-r.versions[i-1].Roles[0].Replicas, r.versions[i-1].Roles[0].Replicas-count), step)
		id := r.decision(now, term)
		if n := len(decisions); n > 0 {
			require.Greater(t, id.Sequence, decisions[n-1].Sequence, "decisions go forward")
			require.True(t, id.Epoch == decisions[n-1].Epoch || !epochs[id.Epoch], "a leader that was replaced wrote again: %s", id)
		}
		epochs[id.Epoch] = true
		decisions = append(decisions, id)
	}
	return decisions
}

// decision of a version: it was written with the counts, under the term of the binding.
func (r *record) decision(d target.Deployment, term int64) fence.DecisionID {
	t := r.s.t
	t.Helper()
	decision, err := fence.ParseDecision(d.Annotations[fence.DecisionAnnotation])
	require.NoError(t, err)
	require.Equal(t, map[string]int32{"server": d.Roles[0].Replicas}, decision.Vector)
	require.Equal(t, term, decision.Term)
	id, err := fence.ParseDecisionID(decision.DecisionID)
	require.NoError(t, err)
	return id
}
