package kube

import (
	"context"
	"fmt"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// Changes is told what moved. Its functions are called from the caches' goroutines: they note who it was and return.
type Changes struct {
	// Scaler was made, edited, is being deleted or is gone. Status writes are not told.
	Scaler func(*workerv1.ModelDeploymentScaler)
	// Target appeared, went or is another object of the same name; counts and annotations are not told.
	Target func(types.NamespacedName)
	// Sampling of a target may have to change: its roles or its Pods did.
	Sampling func(types.NamespacedName)
	// Samplers came, went or changed readiness.
	Samplers func()
}

// Subscribe tells changes from now on. It returns when everything that is there already has been told.
func (c *Cache) Subscribe(ctx context.Context, changes Changes, log *zap.Logger) error {
	handlers := map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		c.scalers: onChange(log, func(old, new *cachedScaler) {
			if scalerMoved(old, new) {
				changes.Scaler(&either(old, new).ModelDeploymentScaler)
			}
		}),
		c.targets: onChange(log, func(old, new *cachedTarget) {
			if old == nil || new == nil || old.UID != new.UID {
				changes.Target(nameOf(either(old, new)))
			}
			changes.Sampling(nameOf(either(old, new)))
		}),
		c.pods: onChange(log, func(old, new *cachedPod) {
			pod := either(old, new)
			changes.Sampling(types.NamespacedName{Namespace: pod.Namespace, Name: pod.label(target.InstanceLabel)})
		}),
	}
	if c.samplers != nil {
		handlers[c.samplers] = onChange(log, func(_, _ *cachedPod) { changes.Samplers() })
	}
	var told []cache.InformerSynced
	for informer, handler := range handlers {
		registration, err := informer.AddEventHandler(handler)
		if err != nil {
			return fmt.Errorf("subscribing to changes: %w", err)
		}
		told = append(told, registration.HasSynced)
	}
	if !cache.WaitForCacheSync(ctx.Done(), told...) {
		return fmt.Errorf("subscribing to changes: %w", ctx.Err())
	}
	return nil
}

// scalerMoved: a pass has to look at it, without waiting for its interval.
func scalerMoved(old, new *cachedScaler) bool {
	return old == nil || new == nil || old.UID != new.UID || old.Generation != new.Generation ||
		(old.DeletionTimestamp == nil) != (new.DeletionTimestamp == nil)
}

// onChange makes a handler of a function of before and after; nil is: was not there, is gone.
func onChange[T any](log *zap.Logger, f func(old, new *T)) cache.ResourceEventHandler {
	typed := func(handed any) *T {
		t, err := object[*T](handed)
		if err != nil {
			log.Error("a cache handed over something else", zap.Error(err))
		}
		return t
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if new := typed(o); new != nil {
				f(nil, new)
			}
		},
		UpdateFunc: func(o, n any) {
			if old, new := typed(o), typed(n); old != nil && new != nil {
				f(old, new)
			}
		},
		DeleteFunc: func(o any) {
			if old := typed(o); old != nil {
				f(old, nil)
			}
		},
	}
}

func either[T any](old, new *T) *T {
	if new != nil {
		return new
	}
	return old
}

// named is what has a namespace and a name.
type named interface {
	GetNamespace() string
	GetName() string
}

func nameOf(o named) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}
