package scenario

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	strictjson "sigs.k8s.io/json"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
)

// ManifestKind is the kind of a Kubernetes object in YAML; empty when it is none.
func ManifestKind(data []byte) string {
	var manifest struct{ Kind string }
	if yaml.Unmarshal(data, &manifest) != nil {
		return ""
	}
	return manifest.Kind
}

// Parse reads a scenario. Unknown fields are errors. The error lists all that is wrong, each with file and line; file is
// the name to say.
func Parse(file string, data []byte) (*Scenario, error) {
	if kind := ManifestKind(data); kind != "" {
		return nil, fmt.Errorf("%s: this is a manifest of kind %s, not a scenario; a scenario has the spec of a scaler under \"scaler\"", file, kind)
	}
	s := &Scenario{file: file, root: &yaml.Node{}}
	in := yaml.NewDecoder(bytes.NewReader(data))
	in.KnownFields(true)
	if err := in.Decode(s); errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: the file holds no scenario", file)
	} else if err != nil {
		return nil, s.readable(err)
	}
	if !errors.Is(in.Decode(&Scenario{}), io.EOF) {
		return nil, fmt.Errorf("%s: one file holds one scenario", file)
	}
	if err := yaml.Unmarshal(data, s.root); err != nil {
		return nil, s.readable(err)
	}
	s.complete()
	if err := errors.Join(slices.Concat(s.readSpecs(), s.settleReadings(), s.validate())...); err != nil {
		return nil, err
	}
	return s, nil
}

// complete fills in defaults and where things stand in the file, and puts events in the order of time.
func (s *Scenario) complete() {
	if s.Start.IsZero() {
		s.Start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	for i := range s.Timeline {
		s.Timeline[i].line = s.at("timeline", i).Line
	}
	for i := range s.Expect {
		s.Expect[i].node = s.at("expect", i)
	}
	slices.SortStableFunc(s.Timeline, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
}

// readSpecs reads the scaler's spec and status as the API server would.
func (s *Scenario) readSpecs() []error {
	spec, errs := specOf(s.Scaler)
	for i, err := range errs {
		errs[i] = s.located(err, "scaler")
	}
	s.spec = spec
	if s.Every == 0 {
		s.Every = int(spec.Sampling.IntervalSeconds)
	}
	for _, err := range strict(s.Status, &s.status) {
		errs = append(errs, s.located(err, "status"))
	}
	return errs
}

// settleReadings fills in what a reading leaves as it was.
func (s *Scenario) settleReadings() (errs []error) {
	latest := map[string]Reading{}
	for _, e := range s.Timeline {
		for role, changed := range e.Observe {
			r := latest[role]
			if changed.node == nil {
				errs = append(errs, s.fail(e.line, "observe: role %s has no fields", role))
				continue
			}
			if err := r.change(changed.node); err != nil {
				errs = append(errs, s.readable(err))
			}
			r.node, latest[role], e.Observe[role] = nil, r, r
		}
	}
	return errs
}

// specOf is a spec as admission would store it; Active unless it says otherwise.
func specOf(fields map[string]any) (workerv1.ModelDeploymentScalerSpec, []error) {
	spec := workerv1.ModelDeploymentScalerSpec{Mode: workerv1.ModeActive}
	errs := strict(fields, &spec)
	workerv1.Default(&spec)
	return spec, errs
}

// strict reads fields into a value of the API, in which unknown ones are errors.
func strict(fields map[string]any, into any) []error {
	if len(fields) == 0 {
		return nil
	}
	data, err := json.Marshal(fields)
	if err != nil {
		return []error{err}
	}
	unknown, err := strictjson.UnmarshalStrict(data, into)
	if err != nil {
		return []error{err}
	}
	return unknown
}

// at finds a place in the file: the deepest that is there on the path, of keys and indices.
func (s *Scenario) at(path ...any) *yaml.Node {
	n := s.root
	if len(n.Content) > 0 {
		n = n.Content[0]
	}
	return descend(n, path...)
}

func descend(n *yaml.Node, path ...any) *yaml.Node {
	for _, step := range path {
		var next *yaml.Node
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		switch step := step.(type) {
		case int:
			if n.Kind == yaml.SequenceNode && step < len(n.Content) {
				next = n.Content[step]
			}
		case string:
			for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
				if n.Content[i].Value == step {
					next = n.Content[i+1]
				}
			}
		}
		if next == nil {
			return n
		}
		n = next
	}
	return n
}

// fail is a mistake at a line.
func (s *Scenario) fail(line int, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", s.file, line, fmt.Sprintf(format, args...))
}

var fieldPath = regexp.MustCompile(`"([^"]+)"`)

// located is a mistake in a value of the API, at the field that it names.
func (s *Scenario) located(err error, below string) error {
	path := []any{below}
	if named := fieldPath.FindStringSubmatch(err.Error()); named != nil {
		for _, step := range strings.FieldsFunc(named[1], func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
			var index int
			if _, isKey := fmt.Sscanf(step, "%d", &index); isKey == nil {
				path = append(path, index)
				continue
			}
			path = append(path, step)
		}
	}
	return s.fail(s.at(path...).Line, "%s: %v", below, err)
}

var (
	position     = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`)
	unknownField = regexp.MustCompile(`field (\S+) not found in type \S+`)
)

// readable puts the mistakes that the YAML reader found in words with their places.
func (s *Scenario) readable(err error) error {
	texts := []string{err.Error()}
	var several *yaml.TypeError
	if errors.As(err, &several) {
		texts = several.Errors
	}
	var errs []error
	for _, text := range texts {
		text = unknownField.ReplaceAllString(text, `unknown field "$1"`)
		if place := position.FindStringSubmatch(text); place != nil {
			errs = append(errs, fmt.Errorf("%s:%s: %s", s.file, place[1], place[2]))
			continue
		}
		errs = append(errs, fmt.Errorf("%s: %s", s.file, strings.TrimPrefix(text, "yaml: ")))
	}
	return errors.Join(errs...)
}
