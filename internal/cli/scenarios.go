package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/decide"
	"gpustack.ai/model-deployment-scaler/internal/scenario"
)

// unreadableError is a file that could not be read or played; the exit code says so.
type unreadableError struct{ error }

func (e unreadableError) Unwrap() error { return e.error }

// filesIn names the files of arguments: a folder stands for every .yaml file below it that is no manifest. What cannot be
// looked at stays as it is, for whoever reads it to say why.
func filesIn(args []string) (files []string, err error) {
	for _, arg := range args {
		if info, statErr := os.Stat(arg); statErr != nil || !info.IsDir() {
			files = append(files, arg)
			continue
		}
		before := len(files)
		err = errors.Join(err, filepath.WalkDir(arg, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && filepath.Ext(path) == ".yaml" && !isManifest(path) {
				files = append(files, path)
			}
			return err
		}))
		if err == nil && len(files) == before {
			err = fmt.Errorf("looking for scenario files: no .yaml file in %s is one", arg)
		}
	}
	return files, err
}

func isManifest(path string) bool {
	data, err := os.ReadFile(path)
	return err == nil && scenario.ManifestKind(data) != ""
}

// play reads a scenario file and runs it to its end. "-" is the standard input.
func play(path string, in io.Reader) (*scenario.Scenario, []scenario.Pass, error) {
	data, err := []byte(nil), error(nil)
	if path == "-" {
		data, err = io.ReadAll(in)
	} else {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, nil, unreadableError{err}
	}
	s, err := scenario.Parse(path, data)
	if err != nil {
		return nil, nil, unreadableError{err}
	}
	passes, err := scenario.Play(s)
	if err != nil {
		return nil, nil, unreadableError{err}
	}
	return s, passes, nil
}

// passEntry is one planning pass as JSON.
type passEntry struct {
	At   int       `json:"at"` // seconds from the start
	Time time.Time `json:"time"`
	// Hold says why nothing was planned at all.
	Hold string `json:"hold,omitempty"`
	// Commit is the vector that was written; null when none was.
	Commit        scenario.Vector   `json:"commit"`
	Kind          string            `json:"kind,omitempty"`
	Why           string            `json:"why,omitempty"`
	Refused       bool              `json:"refused,omitempty"` // the write met conflicts until the pass gave up
	StatusWritten bool              `json:"statusWritten"`
	Conditions    map[string]string `json:"conditions"`
	Roles         []roleEntry       `json:"roles"`

	// Records of recovery, as in the status.
	PendingCohort *workerv1.PendingCohort    `json:"pendingCohort,omitempty"`
	LastScaleDown *workerv1.ScaleDownStatus  `json:"lastScaleDown,omitempty"`
	Rebalance     *workerv1.RebalanceStatus  `json:"rebalance,omitempty"`
	Exhaustion    *workerv1.ExhaustionStatus `json:"exhaustion,omitempty"`
}

// roleEntry is one role in a pass.
type roleEntry struct {
	Name        string      `json:"name"`
	Current     int32       `json:"current"` // planned on
	Ready       int32       `json:"ready"`
	SignalState string      `json:"signalState"`
	Raw         int32       `json:"raw"`
	Constrained int32       `json:"constrained"`
	Reason      string      `json:"reason"`
	Trace       []stepEntry `json:"trace"`
}

// stepEntry is one stage of a role's plan.
type stepEntry struct {
	Stage    string `json:"stage"`
	Replicas int32  `json:"replicas"`
	Rule     string `json:"rule,omitempty"` // what acted
}

func passEntryOf(p *scenario.Pass) passEntry {
	e := passEntry{At: p.At, Time: p.Input.Now, Hold: p.Decision.Hold, Commit: p.Commit(), StatusWritten: p.StatusWritten,
		Conditions: map[string]string{}, Roles: []roleEntry{}, PendingCohort: p.State.PendingCohort,
		LastScaleDown: p.State.LastScaleDown, Rebalance: p.State.Rebalance, Exhaustion: p.State.Exhaustion}
	if c := p.Decision.Commit; c != nil {
		e.Kind, e.Why, e.Refused = string(c.Kind), c.Why, !p.Written
	}
	for _, c := range p.State.Conditions {
		e.Conditions[c.Type] = string(c.Status) + "/" + c.Reason
	}
	for i := range p.State.Roles {
		e.Roles = append(e.Roles, roleEntryOf(p, &p.State.Roles[i]))
	}
	return e
}

func roleEntryOf(p *scenario.Pass, r *decide.RoleState) roleEntry {
	e := roleEntry{Name: r.Name, Current: p.Current[r.Name], Ready: r.Ready, SignalState: string(r.Signal), Raw: r.Raw,
		Constrained: r.Constrained, Reason: r.Reason, Trace: []stepEntry{}}
	for _, s := range p.Decision.Trace[r.Name] {
		e.Trace = append(e.Trace, stepEntry(s))
	}
	return e
}

// stages are the steps of a trace at which something acted, in words.
func (r roleEntry) stages() string {
	var acted []string
	for _, s := range r.Trace {
		if s.Rule != "" {
			acted = append(acted, fmt.Sprintf("%s %d %s", s.Stage, s.Replicas, s.Rule))
		}
	}
	return cmp.Or(strings.Join(acted, ", "), "-")
}

// writes is what a pass did to the target.
func (e passEntry) writes() string {
	switch {
	case e.Refused:
		return e.Kind + " refused"
	case e.Commit != nil:
		return e.Kind + " " + e.Commit.String()
	}
	return "-"
}

// conditionsInOrder are `type=status/reason`, by type.
func (e passEntry) conditionsInOrder() string {
	var all []string
	for _, kind := range slices.Sorted(maps.Keys(e.Conditions)) {
		all = append(all, kind+"="+e.Conditions[kind])
	}
	return strings.Join(all, " ")
}
