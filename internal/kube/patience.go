package kube

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	firstPatience = 500 * time.Millisecond
	mostPatience  = 4 * time.Second
)

// patiently asks until an API server that is away is back, and at most 6 s longer. A reflector that is told of every failure waits
// for up to a minute then, in which a copy that stands by would take over with a cache of before the outage. What an API server
// answers is returned as it is.
func patiently[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	for delay := firstPatience; ; delay = min(2*delay, mostPatience) {
		answer, err := ask()
		if err == nil || !Unreachable(err) {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return answer, err
		case <-time.After(wait.Jitter(delay, 0.5)):
		}
	}
}
