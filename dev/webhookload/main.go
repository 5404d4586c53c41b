package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"gpustack.ai/model-deployment-scaler/dev/measure"
)

// options say how much is asked and what an answer may take.
type options struct {
	rate    int
	cores   int
	warmUp  time.Duration
	measure time.Duration
	limit   time.Duration
}

func main() { measure.Main("webhookload", run) }

func run(ctx context.Context) error {
	o := options{}
	pflag.IntVar(&o.rate, "rate", 500, "Requests a second.")
	pflag.IntVar(&o.cores, "cores", 1, "Cores that the webhook may use (GOMAXPROCS).")
	pflag.DurationVar(&o.warmUp, "warm-up", 20*time.Second, "Time before the measurement.")
	pflag.DurationVar(&o.measure, "measure", 30*time.Second, "Time of the measurement.")
	pflag.DurationVar(&o.limit, "limit", 5*time.Millisecond, "Most that 99 % of the answers may take, besides a read of the API server.")
	pflag.Parse()
	if o.rate < 1 || o.cores < 1 || o.warmUp <= 0 || o.measure <= 0 {
		return errors.New("checking the flags: rate, cores and times must be over zero")
	}
	ctx, stop := context.WithCancel(ctx)
	g, ctx := errgroup.WithContext(ctx)
	measured := load(ctx, g, o)
	stop()
	return errors.Join(measured, g.Wait())
}

// load sets everything up, which ends with g, measures, and reports.
func load(ctx context.Context, g *errgroup.Group, o options) error {
	fmt.Println("starting an API server and bin/webhook")
	w, err := newWorld(ctx, g)
	if err != nil {
		return err
	}
	hook, err := w.startWebhook(ctx, g, o.cores)
	if err != nil {
		return err
	}
	cases, err := w.cases(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%d requests a second on %d core(s); warming up for %s, measuring for %s\n", o.rate, o.cores, o.warmUp, o.measure)
	if _, err := hook.send(ctx, cases, o.rate, o.warmUp); err != nil {
		return err
	}
	before, err := hook.cpu(ctx)
	if err != nil {
		return err
	}
	comparing, enough := context.WithCancel(ctx)
	alone := make(chan []answer, 1)
	go func() { alone <- w.compare(comparing) }()
	answers, err := hook.send(ctx, cases, o.rate, o.measure)
	enough()
	compared := <-alone
	if err != nil {
		return err
	}
	after, err := hook.cpu(ctx)
	if err != nil {
		return err
	}
	m := measured{answers: answers, compared: compared, cores: (after - before) / o.measure.Seconds()}
	return report(os.Stdout, o, cases, m)
}
