package invariants

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// retry is how soon a list that failed is asked for again.
const retry = 100 * time.Millisecond

// follow tells every version of the objects until ctx ends. Connections that break are taken up where they broke; where the
// API server does not know that place any more, after a restart, the objects are listed anew and gap is called before.
func follow(ctx context.Context, client dynamic.ResourceInterface, gap func(), add func(*unstructured.Unstructured)) {
	for first := true; ctx.Err() == nil; {
		list, err := client.List(ctx, metav1.ListOptions{})
		if err != nil {
			pause(ctx, retry)
			continue
		}
		if !first {
			gap()
		}
		first = false
		for i := range list.Items {
			add(&list.Items[i])
		}
		followFrom(ctx, client, list.GetResourceVersion(), add)
	}
}

// followFrom returns when the watch cannot go on.
func followFrom(ctx context.Context, client dynamic.ResourceInterface, version string, add func(*unstructured.Unstructured)) {
	w, err := watchtools.NewRetryWatcherWithContext(ctx, version, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return client.Watch(ctx, o) },
	})
	if err != nil {
		pause(ctx, retry)
		return
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		u, ok := event.Object.(*unstructured.Unstructured)
		if !ok || event.Type == watch.Error {
			return
		}
		add(u)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
