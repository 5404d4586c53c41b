package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"gpustack.ai/model-deployment-scaler/internal/scenario"
)

func newReplay() *cobra.Command {
	output := "table"
	cmd := &cobra.Command{
		Use:     "replay FILE",
		GroupID: "policies",
		Short:   "Print what the planner does in a scenario file, pass by pass.",
		Long: `Run a scenario file, as "kubectl mds test" does, and print one entry for each planning pass. Expectations are not judged.

CURRENT is the count that the pass planned on, RAW what the algorithm wants, COUNT what is left of it. STAGES names each
stage of the plan at which something acted, with the count after it: recommend (the algorithm), upWindow, downWindow, step,
bounds, guards, project (ratios), direction, rebalance, recover.`,
		Example: `  kubectl mds replay policy.yaml
  kubectl mds replay policy.yaml -o json | jq '.[] | select(.commit)'`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "table" && output != "json" {
				return usageError{fmt.Errorf("--output: %q is not one of table, json", output)}
			}
			_, passes, err := play(args[0], cmd.InOrStdin())
			if err != nil {
				return err
			}
			if output == "json" {
				return writeJSON(cmd.OutOrStdout(), passEntriesOf(passes))
			}
			return printPasses(cmd.OutOrStdout(), passEntriesOf(passes))
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", output, "Output: table or json.")
	return cmd
}

func passEntriesOf(passes []scenario.Pass) []passEntry {
	entries := make([]passEntry, 0, len(passes))
	for i := range passes {
		entries = append(entries, passEntryOf(&passes[i]))
	}
	return entries
}

// printPasses prints a row for each role of each pass; what is about the pass stands in its first row.
func printPasses(w io.Writer, entries []passEntry) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "AT\tROLE\tCURRENT\tREADY\tSIGNALS\tRAW\tCOUNT\tREASON\tBLOCKED\tWROTE\tSTAGES")
	for _, e := range entries {
		at, blocked, wrote := strconv.Itoa(e.At)+"s", blockedBy(e), e.writes()
		if e.Hold != "" {
			fmt.Fprintf(table, "%s\t-\t-\t-\t-\t-\t-\t-\t%s\t%s\tnothing was planned: %s\n", at, blocked, wrote, e.Hold)
			continue
		}
		for _, r := range e.Roles {
			fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%s\t%d\t%d\t%s\t%s\t%s\t%s\n",
				at, r.Name, r.Current, r.Ready, r.SignalState, r.Raw, r.Constrained, r.Reason, blocked, wrote, r.stages())
			at, blocked, wrote = "", "", ""
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}

// blockedBy is the reason of the condition Blocked while it is true.
func blockedBy(e passEntry) string {
	if reason, blocked := strings.CutPrefix(e.Conditions["Blocked"], "True/"); blocked {
		return reason
	}
	return "-"
}
