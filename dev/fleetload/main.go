package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/pflag"

	"gpustack.ai/model-deployment-scaler/dev/measure"
)

// options say how large the fleet is and how long it is looked at.
type options struct {
	decider  string
	scalers  int
	samplers int
	burst    int
	cores    int
	warmUp   time.Duration
	measure  time.Duration
}

func main() { measure.Main("fleetload", run) }

func run(ctx context.Context) error {
	o := options{}
	pflag.StringVar(&o.decider, "decider", "bin/decider", "The decider to measure.")
	pflag.IntVar(&o.scalers, "scalers", 5000, "Scalers, each of a deployment with two roles of two Pods.")
	pflag.IntVar(&o.samplers, "samplers", 10, "Simulated samplers.")
	pflag.IntVar(&o.burst, "burst", 200, "Deployments whose demand bursts at the end.")
	pflag.IntVar(&o.cores, "cores", 1, "Cores that the decider may use.")
	pflag.DurationVar(&o.warmUp, "warm-up", 45*time.Second, "Time before the measurement.")
	pflag.DurationVar(&o.measure, "measure", time.Minute, "Time of the measurement.")
	pflag.Parse()
	if o.scalers < 1 || o.samplers < 1 || o.burst < 1 || o.burst+stepping > o.scalers || o.cores < 1 || o.measure < interval {
		return errors.New("checking the flags: at least one scaler, sampler and core, a burst that leaves 20 of the scalers alone, and a measurement of one interval are needed")
	}
	return load(ctx, o)
}
