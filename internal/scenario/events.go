package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"

	"go.yaml.in/yaml/v3"

	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// apply plays one event on the world; those on the decider are the run's.
func (w *world) apply(e *Event) error {
	for role, reading := range e.Observe {
		w.readings[role] = reading
	}
	if e.TargetDeleted {
		w.gone = true
		w.version++
	}
	if e.TargetRecreated != nil {
		w.create(e.TargetRecreated.Roles)
	}
	if e.Target != nil {
		if err := w.edit(e.Target); err != nil {
			return err
		}
	}
	if err := w.applyToInstances(e); err != nil {
		return err
	}
	if e.Retirement != nil {
		w.retire(e.Retirement)
	}
	if e.Binding != nil {
		w.annotate(*e.Binding)
	}
	return nil
}

func (w *world) applyToInstances(e *Event) error {
	for _, change := range []struct {
		names []string
		apply func(*instance)
	}{
		{e.Admit, func(in *instance) { in.admitted, in.admittedAt = true, w.now }},
		{e.Evict, func(in *instance) { in.admitted, in.asked = false, math.Inf(1) }},
		{e.WorkloadGone, func(in *instance) { in.workload, in.goneAt = false, math.Inf(1) }},
	} {
		for _, name := range change.names {
			in, err := w.find(name)
			if err != nil {
				return err
			}
			change.apply(in)
		}
	}
	return nil
}

func (w *world) find(name string) (*instance, error) {
	role, ordinal, err := splitOrdinal(name)
	if in := w.instances[slot{role, ordinal}]; err == nil && in != nil {
		return in, nil
	}
	return nil, fmt.Errorf("there is no instance %s", name)
}

// retire shows a retirement, or ends the Pods and the record of one. The instance's own timer no longer counts.
func (w *world) retire(r *Retirement) {
	w.version++
	in := w.instances[slot{r.Role, r.Ordinal}]
	if in != nil {
		in.goneAt = math.Inf(1)
	}
	if r.State == finished {
		w.retirement = nil
		if in != nil {
			in.pods = false
		}
		return
	}
	generation := w.generation
	if r.Generation != nil {
		generation = *r.Generation
	}
	w.retirement = &target.Retirement{Role: r.Role, Ordinal: r.Ordinal, State: target.RetirementState(r.State), ObservedGeneration: generation}
}

func (w *world) annotate(b Binding) {
	w.version++
	if b == none {
		delete(w.notes, fence.BindingAnnotation)
		return
	}
	w.notes[fence.BindingAnnotation] = string(b)
}

// edit is somebody else's patch of the target's spec. Any patch is a new generation, also one of a field not told here.
func (w *world) edit(patch map[string]any) error {
	var fields map[string]any
	if err := convert(Target{w.roles}, &fields); err != nil {
		return err
	}
	merge(fields, patch)
	var edited Target
	if err := convert(fields, &edited); err != nil {
		return fmt.Errorf("patching the target: %w", err)
	}
	var wrong []error
	checkTarget(&edited, 0, func(right bool, _ int, format string, args ...any) {
		if !right {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	})
	if len(wrong) > 0 {
		return fmt.Errorf("patching the target: %w", errors.Join(wrong...))
	}
	w.roles = edited.Roles
	w.generation++
	w.version++
	for i := range w.roles {
		w.follow(&w.roles[i])
	}
	return nil
}

// convert turns a value into another with the same fields in YAML; unknown ones are errors.
func convert(from, to any) error {
	data, err := yaml.Marshal(from)
	if err != nil {
		return err
	}
	in := yaml.NewDecoder(bytes.NewReader(data))
	in.KnownFields(true)
	return in.Decode(to)
}

// merge is a merge patch in which lists of roles merge by name. What is merged in is copied.
func merge(into, patch map[string]any) {
	for key, value := range patch {
		switch value := value.(type) {
		case map[string]any:
			old, isMap := into[key].(map[string]any)
			if !isMap {
				old = map[string]any{}
			}
			merge(old, value)
			into[key] = old
		case []any:
			old, isList := into[key].([]any)
			if isList && key == "roles" {
				into[key] = mergeByName(old, value)
				continue
			}
			into[key] = value
		case nil:
			delete(into, key)
		default:
			into[key] = value
		}
	}
}

func mergeByName(old, patch []any) []any {
	merged := slices.Clone(old)
	for _, item := range patch {
		fields, isMap := item.(map[string]any)
		if !isMap {
			return patch // not a list of roles after all: whoever reads it says so
		}
		at := slices.IndexFunc(merged, func(o any) bool { m, _ := o.(map[string]any); return m["name"] == fields["name"] })
		if at < 0 {
			merged = append(merged, item)
			continue
		}
		merge(merged[at].(map[string]any), fields)
	}
	return merged
}
