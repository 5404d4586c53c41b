package kube

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// listWatcher is a typed or dynamic client of one resource.
type listWatcher[L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// newInformer caches one resource: filtered by selector, shrunk by transform on the way in, found again by the indexers.
// example is what the API server sends, client decides with it whether watches can start with a list.
func newInformer[L runtime.Object](client listWatcher[L], selector string, example runtime.Object,
	shrink cache.TransformFunc, indexers cache.Indexers,
) (cache.SharedIndexInformer, error) {
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = selector
			return patiently(ctx, func() (runtime.Object, error) { return client.List(ctx, options) })
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = selector
			return patiently(ctx, func() (watch.Interface, error) { return client.Watch(ctx, options) })
		},
	}
	informer := cache.NewSharedIndexInformerWithOptions(lw, example, cache.SharedIndexInformerOptions{Indexers: indexers})
	return informer, informer.SetTransform(shrink)
}

// byIndex looks cached objects up; a cache without that index is a defect of this package.
func byIndex[T any](informer cache.SharedIndexInformer, index, value string) []T {
	objects, err := informer.GetIndexer().ByIndex(index, value)
	if err != nil {
		panic(err)
	}
	typed := make([]T, 0, len(objects))
	for _, o := range objects {
		if t, ok := o.(T); ok {
			typed = append(typed, t)
		}
	}
	return typed
}

// indexBy makes an index function for cached objects of one type.
func indexBy[T any](values func(T) []string) cache.IndexFunc {
	return func(object any) ([]string, error) {
		if typed, ok := object.(T); ok {
			return values(typed), nil
		}
		return nil, nil
	}
}
