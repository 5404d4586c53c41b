package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// entry is one scrape, or one pass over several Pods, as JSON. What is missing is null.
type entry struct {
	Engine                    *string  `json:"engine"`
	State                     string   `json:"state"`
	Running                   *float64 `json:"running"`
	Waiting                   *float64 `json:"waiting"`
	KVCacheUsage              *float64 `json:"kvCacheUsage"`
	PromptTokensPerSecond     *float64 `json:"promptTokensPerSecond"`
	RawPromptTokensPerSecond  *float64 `json:"rawPromptTokensPerSecond"`
	GenerationTokensPerSecond *float64 `json:"generationTokensPerSecond"`
	TTFTMilliseconds          *float64 `json:"ttftMilliseconds"`
	TTFTSource                *string  `json:"ttftSource"`
	ITLMilliseconds           *float64 `json:"itlMilliseconds"`
	ITLSource                 *string  `json:"itlSource"`
	Answered                  *int     `json:"answered,omitempty"` // of several Pods
	Rated                     *int     `json:"rated,omitempty"`
	Error                     *string  `json:"error"`
	SeriesRead                int      `json:"seriesRead"`
	Bytes                     int      `json:"bytes"`

	sources []string
	notes   []string
}

func (o *inspectOptions) entryOf(obs observe.RoleObservation, readings []reading) entry {
	e := entry{
		Engine: text(string(obs.Engine)), State: string(obs.State), Running: number(obs.Running), Waiting: number(obs.Waiting),
		KVCacheUsage: number(obs.KVCacheUsage), PromptTokensPerSecond: number(obs.Prompt), RawPromptTokensPerSecond: number(obs.RawPrompt),
		GenerationTokensPerSecond: number(obs.Generation), TTFTMilliseconds: number(obs.TTFT.Value()), TTFTSource: text(string(obs.TTFT.Source)),
		ITLMilliseconds: number(obs.ITL.Value()), ITLSource: text(string(obs.ITL.Source)),
		notes: explain(obs, readings, o),
	}
	if len(o.pods) > 0 {
		e.Answered, e.Rated = &obs.Coverage.Answered, &obs.Coverage.Rated
	}
	var failures []string
	for _, u := range obs.Coverage.Uncovered {
		if u.Reason != observe.NoBaseline && u.Reason != observe.Reset { // those were read
			failures = append(failures, o.about(u))
		}
	}
	e.Error = text(strings.Join(failures, "; "))
	for _, r := range readings {
		e.sources = append(e.sources, r.source)
		e.SeriesRead += r.series
		e.Bytes += r.bytes
	}
	return e
}

// about is the message of an uncovered Pod, with its name where there are several.
func (o *inspectOptions) about(u observe.UncoveredPod) string {
	message := string(u.Reason)
	if u.Message != "" {
		message = u.Message
	}
	if len(o.pods) > 0 {
		return u.Name + ": " + message
	}
	return message
}

func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func number(v observe.Value) *float64 {
	if !v.Valid {
		return nil
	}
	return &v.Float64
}

func printJSON(w io.Writer, entries []entry) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(entries)
}

// printTable prints one line per entry, and below what has to be said about each.
func printTable(w io.Writer, entries []entry, several bool) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := "SCRAPE\tSTATE\tENGINE\tRUNNING\tWAITING\tKV CACHE\tPROMPT/S\tALL PROMPT/S\tGENERATED/S\tTTFT\tITL"
	if several {
		head += "\tANSWERED\tRATED"
	}
	fmt.Fprintln(table, head)
	for i, e := range entries {
		cells := []string{
			strconv.Itoa(i + 1), e.State, orDash(e.Engine), cell(e.Running, 1, ""), cell(e.Waiting, 1, ""), cell(e.KVCacheUsage, 100, "%"),
			cell(e.PromptTokensPerSecond, 1, ""), cell(e.RawPromptTokensPerSecond, 1, ""), cell(e.GenerationTokensPerSecond, 1, ""),
			latency(e.TTFTMilliseconds, e.TTFTSource), latency(e.ITLMilliseconds, e.ITLSource),
		}
		if several {
			cells = append(cells, strconv.Itoa(*e.Answered), strconv.Itoa(*e.Rated))
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	for i, e := range entries {
		fmt.Fprintf(w, "\nScrape %d, %s: %d needed series in %d bytes.\n", i+1, strings.Join(e.sources, " "), e.SeriesRead, e.Bytes)
		for _, note := range e.notes {
			fmt.Fprintf(w, "  - %s\n", note)
		}
	}
	return nil
}

func orDash(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

// cell is a number with at most three decimals.
func cell(v *float64, factor float64, unit string) string {
	if v == nil {
		return "-"
	}
	s := strconv.FormatFloat(*v*factor, 'f', 3, 64)
	return strings.TrimRight(strings.TrimRight(s, "0"), ".") + unit
}

func latency(ms *float64, source *string) string {
	switch {
	case ms == nil:
		return "-"
	case *source == string(observe.FromMean):
		return cell(ms, 1, "ms (mean)")
	default:
		return cell(ms, 1, "ms (p95)")
	}
}
