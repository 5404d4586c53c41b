package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/scrape"
	"gpustack.ai/model-deployment-scaler/internal/windows"
)

// inspectOptions are the flags of inspect.
type inspectOptions struct {
	interval     time.Duration
	engine       string
	kind         string
	contentType  string
	dataParallel string
	output       string
	pods         []string
}

var kinds = map[string]observe.RoleKind{"server": observe.Server, "prefill": observe.Prefill, "decode": observe.Decode}

func newInspect() *cobra.Command {
	o := &inspectOptions{interval: 15 * time.Second, engine: "auto", kind: "server", dataParallel: string(scrape.Sum), output: "table"}
	cmd := &cobra.Command{
		Use:     "inspect FILE_OR_URL... | --pod NAME=FILE_OR_URL,...",
		GroupID: "signals",
		Short:   "Say what the sampler makes of an engine's metrics, and why something is missing.",
		Long: `Read successive scrapes of one Pod, or of the Pods of one role, as the sampler does, and print what they say.

A file holds one scrape; "-" stands for a scrape that failed. A URL is scraped each time it is named: name it twice for
rates, the interval is waited for. Engines with private certificates or API keys are read with curl into files first.

PROMPT/S are the prompt tokens a second that had to be computed, ALL PROMPT/S those and the ones that a cache had, GENERATED/S
the tokens that were generated. TTFT is the time to the first token, ITL that from one token to the next.`,
		Example: `  kubectl mds inspect first.prom second.prom --interval 15s
  kubectl mds inspect http://127.0.0.1:8000/metrics http://127.0.0.1:8000/metrics
  kubectl mds inspect --pod a=a1.prom,a2.prom --pod b=b1.prom,- --role-kind decode -o json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			pods, err := o.complete(args)
			if err != nil {
				return usageError{err}
			}
			entries, err := o.inspect(cmd.Context(), pods)
			if err != nil {
				return err
			}
			return o.print(cmd.OutOrStdout(), entries)
		},
	}
	f := cmd.Flags()
	f.DurationVar(&o.interval, "interval", o.interval, "Time between two scrapes.")
	f.StringVar(&o.engine, "engine", o.engine, "Engine to read where the series of several are exposed: auto, vllm or sglang.")
	f.StringVar(&o.kind, "role-kind", o.kind, "Kind of the role: server, prefill or decode.")
	f.StringVar(&o.contentType, "content-type", "", "Content-Type that the files were sent with; by default what their end suggests.")
	f.StringVar(&o.dataParallel, "data-parallel", o.dataParallel, "What counts of the independent engines behind one endpoint: sum, or rank-zero alone.")
	f.StringVarP(&o.output, "output", "o", o.output, "Output: table or json.")
	f.StringArrayVar(&o.pods, "pod", nil, "NAME=FILE_OR_URL,...: successive scrapes of one of several Pods; repeated.")
	return cmd
}

// inspected is one Pod with its successive scrapes.
type inspected struct {
	name    string
	sources []string
}

// complete checks everything at once and lists the Pods.
func (o *inspectOptions) complete(args []string) ([]inspected, error) {
	var errs []error
	check := func(right bool, format string, a ...any) {
		if !right {
			errs = append(errs, fmt.Errorf(format, a...))
		}
	}
	check(o.interval > 0, "--interval: %s is not above 0", o.interval)
	check(o.engine == "auto" || scrape.EngineNamed(o.engine) != "", "--engine: %q is not one of auto, vllm, sglang", o.engine)
	check(kinds[strings.ToLower(o.kind)] != "", "--role-kind: %q is not one of server, prefill, decode", o.kind)
	check(o.output == "table" || o.output == "json", "--output: %q is not one of table, json", o.output)
	mode := scrape.DataParallel(o.dataParallel)
	check(mode == scrape.Sum || mode == scrape.RankZero, "--data-parallel: %q is not one of %s, %s", o.dataParallel, scrape.Sum, scrape.RankZero)
	check((len(args) > 0) != (len(o.pods) > 0), "give either files and URLs of one Pod, or --pod for each of several")
	pods := []inspected{{"pod", args}}
	if len(o.pods) > 0 {
		pods = nil
	}
	for _, p := range o.pods {
		podName, sources, found := strings.Cut(p, "=")
		check(found && podName != "" && sources != "", "--pod: %q is not NAME=FILE,FILE,...", p)
		pods = append(pods, inspected{podName, strings.Split(sources, ",")})
		check(len(pods[0].sources) == len(pods[len(pods)-1].sources), "--pod: %s has not as many scrapes as %s; write - for one that failed", podName, pods[0].name)
	}
	return pods, errors.Join(errs...)
}

// inspect makes one pass per scrape.
func (o *inspectOptions) inspect(ctx context.Context, pods []inspected) ([]entry, error) {
	r, err := newReader(o, pods)
	if err != nil {
		return nil, err
	}
	assignment := observe.Assignment{Kind: kinds[strings.ToLower(o.kind)], Interval: o.interval, ReadyReplicas: len(pods)}
	for i, p := range pods {
		assignment.Pods = append(assignment.Pods, observe.Pod{Name: p.name, UID: p.name, Ordinal: i})
	}
	var role windows.Role
	var entries []entry
	for step := range pods[0].sources {
		now, err := r.wait(ctx, step)
		if err != nil {
			return nil, err
		}
		readings, err := r.readAll(ctx, pods, step, now)
		if err != nil {
			return nil, err
		}
		observation := role.Pass(assignment, now, now, resultsOf(readings))
		entries = append(entries, o.entryOf(observation, readings))
	}
	return entries, nil
}

func resultsOf(readings []reading) []windows.PodResult {
	var out []windows.PodResult
	for _, r := range readings {
		out = append(out, r.result)
	}
	return out
}

func (o *inspectOptions) print(w io.Writer, entries []entry) error {
	if o.output == "json" {
		return printJSON(w, entries)
	}
	return printTable(w, entries, len(o.pods) > 0)
}

// hint is the engine asked for; empty: any.
func (o *inspectOptions) hint() observe.Engine { return scrape.EngineNamed(o.engine) }
