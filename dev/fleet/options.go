package fleet

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"go.uber.org/zap"
	"k8s.io/client-go/rest"

	"gpustack.ai/model-deployment-scaler/internal/sim"
)

// Options of a fleet. Start from NewOptions.
type Options struct {
	// Config of an API server for development, with an administrator's rights.
	Config *rest.Config
	// PodCIDR that Pods take their addresses from: loopback addresses that nobody else listens on.
	PodCIDR netip.Prefix
	// World: capacities of engines, quota, and the delays of admission, cold start and retirement. Gone is the fleet's own.
	// With sim.DefaultCapacity one Server serves about 12 requests a second of 700 prompt and 200 output tokens.
	World sim.Options
	// TerminationDelay between the deletion of a Pod and its end.
	TerminationDelay time.Duration
	// Tick between two comparisons of the world with the cluster.
	Tick time.Duration
	// Log; nothing is logged without one.
	Log *zap.Logger
}

// NewOptions are for a demonstration: everything that takes minutes with real models takes seconds.
func NewOptions(config *rest.Config, podCIDR netip.Prefix) Options {
	return Options{
		Config:  config,
		PodCIDR: podCIDR,
		World: sim.Options{
			AdmissionDelay: 500 * time.Millisecond,
			ColdStart:      3 * time.Second,
			RetirementStep: 300 * time.Millisecond,
			DrainLimit:     240 * time.Second,
		},
		TerminationDelay: 500 * time.Millisecond,
		Tick:             200 * time.Millisecond,
		Log:              zap.NewNop(),
	}
}

// validate says everything that is wrong.
func (o Options) validate() error {
	var wrong []error
	if o.Config == nil {
		wrong = append(wrong, errors.New("config is missing"))
	}
	if !o.PodCIDR.IsValid() || !o.PodCIDR.Addr().Is4() || !o.PodCIDR.Addr().IsLoopback() {
		wrong = append(wrong, fmt.Errorf("podCIDR %s is not a range of IPv4 loopback addresses such as 127.10.128.0/17", o.PodCIDR))
	}
	if o.Tick <= 0 {
		wrong = append(wrong, fmt.Errorf("tick %s is not positive", o.Tick))
	}
	if err := errors.Join(wrong...); err != nil {
		return fmt.Errorf("checking the options of the fleet: %w", err)
	}
	return nil
}
