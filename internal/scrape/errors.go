package scrape

import (
	"errors"
	"fmt"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// Error is a failed scrape with its reason. Its text never carries a body or a header.
type Error struct {
	Reason observe.UncoveredReason
	err    error
}

// Error is the text for people.
func (e *Error) Error() string { return e.err.Error() }

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.err }

// ReasonOf is the reason of a failed scrape; Unreachable for an error that carries none.
func ReasonOf(err error) observe.UncoveredReason {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return observe.Unreachable
}

func failf(reason observe.UncoveredReason, format string, args ...any) error {
	return &Error{Reason: reason, err: fmt.Errorf(format, args...)}
}
