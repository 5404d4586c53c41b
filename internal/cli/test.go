package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"gpustack.ai/model-deployment-scaler/internal/scenario"
)

func newTest() *cobra.Command {
	output, verbose := "text", false
	cmd := &cobra.Command{
		Use:     "test FILE|DIR...",
		GroupID: "policies",
		Short:   "Run policy tests: scenario files against the planner that the decider runs.",
		Long: `Run scenario files, a folder's being all .yaml files below it but manifests, and say which of their expectations hold. No
cluster is needed: time is in the file, and a small simulated world follows the counts that the planner writes.

A file tells a scaler's spec (mode Active unless it says otherwise, defaults as by admission), the roles of its target,
what happens (readings, admission, retirements, edits, restarts) and what is expected of which planning pass:

  name: a queue of 60 needs 6 replicas
  scaler:
    roles: [{name: server, maxReplicas: 16}]
    algorithm: {proportional: {metric: QueueDepth, roleTargets: [{name: server, target: "10"}]}}
  target: {roles: [{name: server, replicas: 2}]}
  timeline:
    - {at: 0, observe: {server: {running: 50, waiting: 10}}}
  expect:
    - {at: 0, roles: {server: {raw: 6}}, commit: {server: 6}}
    - {during: [15, 300], commit: none}

What fails is told with file and line, what was expected, what came, and the plan of that pass stage by stage.
Exit code: 0 when all expectations hold, 1 when one fails, 2 when a file cannot be read or played.`,
		Example: `  kubectl mds test policies/
  kubectl mds test policy.yaml -o json
  kubectl mds replay policy.yaml     # the passes themselves`,
		Args: usage(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "text" && output != "json" {
				return usageError{fmt.Errorf("--output: %q is not one of text, json", output)}
			}
			files, err := filesIn(args)
			if err != nil {
				return unreadableError{err}
			}
			report, err := test(files, cmd.InOrStdin())
			if output == "json" {
				return errors.Join(report.printJSON(cmd.OutOrStdout()), err)
			}
			report.print(cmd.OutOrStdout(), verbose)
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", output, "Output: text or json.")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", verbose, "Also list the expectations that hold.")
	return cmd
}

// testReport is what became of all files.
type testReport struct {
	Files        []fileReport `json:"files"`
	Expectations int          `json:"expectations"`
	Failed       int          `json:"failed"`
	Unreadable   int          `json:"unreadable"`
}

// fileReport is what became of one file.
type fileReport struct {
	File         string              `json:"file"`
	Name         string              `json:"name,omitempty"`
	Error        string              `json:"error,omitempty"` // why it could not be read or played
	Passes       int                 `json:"passes"`
	Expectations []expectationReport `json:"expectations"`
}

// expectationReport is what became of one expectation.
type expectationReport struct {
	Line   int             `json:"line"`
	When   string          `json:"when"`
	Holds  bool            `json:"holds"`
	Misses []scenario.Miss `json:"misses,omitempty"`
	// Pass is the one that failed first, FailedPasses says how many did.
	Pass         *passEntry `json:"pass,omitempty"`
	FailedPasses int        `json:"failedPasses,omitempty"`
}

// test runs all files. The error says what the exit code says.
func test(files []string, in io.Reader) (testReport, error) {
	r := testReport{Files: []fileReport{}}
	for _, file := range files {
		f := testFile(file, in)
		r.Files = append(r.Files, f)
		r.Expectations += len(f.Expectations)
		r.Failed += f.failed()
		if f.Error != "" {
			r.Unreadable++
		}
	}
	switch {
	case r.Unreadable > 0:
		return r, unreadableError{fmt.Errorf("%d of %d files could not be read or played", r.Unreadable, len(files))}
	case r.Failed > 0:
		return r, fmt.Errorf("%d of %d expectations failed", r.Failed, r.Expectations)
	}
	return r, nil
}

func testFile(file string, in io.Reader) fileReport {
	f := fileReport{File: file, Expectations: []expectationReport{}}
	s, passes, err := play(file, in)
	if err != nil {
		f.Error = err.Error()
		return f
	}
	f.Name, f.Passes = s.Name, len(passes)
	for _, v := range scenario.Judge(s, passes) {
		e := expectationReport{Line: v.Line, When: v.When, Holds: v.Holds, Misses: v.Misses}
		if v.Pass >= 0 {
			pass := passEntryOf(&passes[v.Pass])
			e.Pass, e.FailedPasses = &pass, 1+v.More
		}
		f.Expectations = append(f.Expectations, e)
	}
	return f
}

func (f *fileReport) failed() (n int) {
	for _, e := range f.Expectations {
		if !e.Holds {
			n++
		}
	}
	return n
}

func (r testReport) printJSON(w io.Writer) error { return writeJSON(w, r) }

func writeJSON(w io.Writer, v any) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(v)
}

func (r testReport) print(w io.Writer, verbose bool) {
	for i := range r.Files {
		r.Files[i].print(w, verbose)
	}
	fmt.Fprintf(w, "%s, %s: %d hold, %d failed", counted(len(r.Files), "file"), counted(r.Expectations, "expectation"), r.Expectations-r.Failed, r.Failed)
	if r.Unreadable > 0 {
		fmt.Fprintf(w, "; %s could not be read or played", counted(r.Unreadable, "file"))
	}
	fmt.Fprintln(w)
}

func (f *fileReport) print(w io.Writer, verbose bool) {
	switch failed := f.failed(); {
	case f.Error != "":
		fmt.Fprintf(w, "ERROR %s\n%s\n", f.File, f.Error)
		return
	case failed > 0:
		fmt.Fprintf(w, "FAIL  %s: %d of %s failed (%s)\n", f.File, failed, counted(len(f.Expectations), "expectation"), f.Name)
	default:
		fmt.Fprintf(w, "ok    %s: %s in %s (%s)\n", f.File, counted(len(f.Expectations), "expectation"), counted(f.Passes, "pass"), f.Name)
	}
	for _, e := range f.Expectations {
		if verbose || !e.Holds {
			e.print(w, f.File)
		}
	}
}

func (e expectationReport) print(w io.Writer, file string) {
	if e.Holds {
		fmt.Fprintf(w, "  %s:%d: %s: holds\n", file, e.Line, e.When)
		return
	}
	fmt.Fprintf(w, "  %s:%d: %s\n", file, e.Line, e.When)
	for _, m := range e.Misses {
		place := ""
		if m.Line != e.Line {
			place = fmt.Sprintf(" (line %d)", m.Line)
		}
		fmt.Fprintf(w, "    %s%s\n", m, place)
	}
	if e.Pass == nil {
		return
	}
	also := ""
	if e.FailedPasses > 1 {
		also = fmt.Sprintf(", the first of %d that failed", e.FailedPasses)
	}
	fmt.Fprintf(w, "    the pass at %d s%s:\n", e.Pass.At, also)
	e.Pass.print(w, "      ")
}

// print tells a pass in a few lines.
func (e passEntry) print(w io.Writer, indent string) {
	if e.Hold != "" {
		fmt.Fprintf(w, "%snothing was planned: %s\n", indent, e.Hold)
	}
	for _, r := range e.Roles {
		fmt.Fprintf(w, "%s%s: %d replicas, %d ready, signals %s, %s: %s\n", indent, r.Name, r.Current, r.Ready, r.SignalState, r.Reason, r.stages())
	}
	wrote := e.writes()
	if wrote == "-" {
		wrote = "nothing"
	}
	fmt.Fprintf(w, "%swrote %s; %s\n", indent, wrote, e.conditionsInOrder())
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if what == "pass" {
		return fmt.Sprintf("%d passes", n)
	}
	return fmt.Sprintf("%d %ss", n, what)
}
