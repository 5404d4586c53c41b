package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"

	"gpustack.ai/model-deployment-scaler/dev/measure"
)

// enginesArgument makes this program the engines' process.
const enginesArgument = "engines"

// options say how much is scraped and what it may cost.
type options struct {
	sampler  string
	page     string
	pods     int
	perRole  int
	silent   int
	interval time.Duration
	warmUp   time.Duration
	measure  time.Duration
	maxCores float64
	maxMB    float64
	more     []string // flags of the sampler
}

func main() { measure.Main("samplerload", run) }

func run(ctx context.Context) error {
	o := options{}
	pflag.StringVar(&o.sampler, "sampler", "bin/sampler", "The sampler to measure.")
	pflag.StringVar(&o.page, "page", "internal/scrape/testdata/sglang-0.5.15-tp8.prom", "The exposition that every Pod serves.")
	pflag.IntVar(&o.pods, "pods", 10000, "Pods.")
	pflag.IntVar(&o.perRole, "pods-per-role", 16, "Pods of one role.")
	pflag.IntVar(&o.silent, "silent", 0, "Pods, evenly spread, that accept connections and never answer.")
	pflag.DurationVar(&o.interval, "interval", 15*time.Second, "Sampling interval.")
	pflag.DurationVar(&o.warmUp, "warm-up", 35*time.Second, "Time before the measurement: at least two intervals.")
	pflag.DurationVar(&o.measure, "measure", 60*time.Second, "Time of the measurement.")
	pflag.Float64Var(&o.maxCores, "max-cores", 0.5, "Most CPU time a second that is no failure.")
	pflag.Float64Var(&o.maxMB, "max-mb", 100, "Most resident memory, in MB, that is no failure.")
	pflag.Usage = func() {
		fmt.Fprintf(os.Stderr, "Usage: samplerload [flags] [-- flags of the sampler]\n%s", pflag.CommandLine.FlagUsages())
	}
	pflag.Parse()
	if pflag.Arg(0) == enginesArgument {
		return serveEngines(ctx, o)
	}
	o.more = pflag.Args()
	if o.pods < 1 || o.perRole < 1 || o.silent < 0 || o.silent > o.pods || o.interval <= 0 || o.warmUp < 2*o.interval || o.measure < o.interval {
		return errors.New("checking the flags: at least one Pod, no more silent ones than there are, a warm-up of two intervals and a measurement of one are needed")
	}
	return load(ctx, o)
}
