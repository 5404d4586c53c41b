package cli

import (
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/util/validation/field"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/manifest"
)

// validateReport is what became of all files.
type validateReport struct {
	Scalers    []scalerReport `json:"scalers"`
	Unreadable []string       `json:"unreadable,omitempty"` // what could not be read, and why
}

// scalerReport is what became of one scaler.
type scalerReport struct {
	File      string `json:"file"`
	Line      int    `json:"line"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Valid     bool   `json:"valid"`
	// Target is the file with the target that the scaler was checked against; empty when there was none.
	Target   string    `json:"target,omitempty"`
	Errors   []finding `json:"errors,omitempty"`
	Warnings []string  `json:"warnings,omitempty"`
}

// finding is one sentence about a field.
type finding struct {
	Line    int    `json:"line"`
	Field   string `json:"field"`
	Message string `json:"message"` // with the field, as the API server prints it
}

func reportOf(m *manifest.Manifest) scalerReport {
	return scalerReport{File: m.File, Line: m.Line(""), Namespace: m.Text("metadata", "namespace"), Name: m.Text("metadata", "name"), Valid: true}
}

func (j *judging) foundAll(errs field.ErrorList) {
	for _, err := range errs {
		if err.Field == "<nil>" { // about the object as a whole: the API server prints it like that
			j.found("", err.Detail)
			continue
		}
		j.found(err.Field, err.Error())
	}
}

// byLine orders findings; what is about the whole object comes last.
func byLine(a, b finding) int {
	if (a.Field == "") != (b.Field == "") {
		return len(b.Field) - len(a.Field)
	}
	return a.Line - b.Line
}

func (j *judging) found(field, message string) {
	j.Valid = false
	j.Errors = append(j.Errors, finding{j.manifest.Line(field), field, message})
}

func (s *scalerReport) object() string {
	return fmt.Sprintf("%s %s/%s", workerv1.Kind, s.Namespace, s.Name)
}

// err says what the exit code says.
func (r *validateReport) err() error {
	invalid := 0
	for i := range r.Scalers {
		if !r.Scalers[i].Valid {
			invalid++
		}
	}
	switch {
	case len(r.Unreadable) > 0:
		return unreadableError{fmt.Errorf("%s could not be read", counted(len(r.Unreadable), "file"))}
	case invalid > 0:
		return fmt.Errorf("%d of %s would be refused", invalid, counted(len(r.Scalers), "scaler"))
	}
	return nil
}

// print puts findings on out; warnings and what could not be read on errs.
func (r *validateReport) print(out, errs io.Writer) {
	for i := range r.Scalers {
		r.Scalers[i].print(out, errs)
	}
	for _, failure := range r.Unreadable {
		fmt.Fprintln(errs, failure)
	}
	if len(r.Scalers)+len(r.Unreadable) == 0 {
		fmt.Fprintf(errs, "Warning: there is no %s in these files.\n", workerv1.Kind)
	}
}

func (s *scalerReport) print(out, errs io.Writer) {
	for _, e := range s.Errors {
		fmt.Fprintf(out, "%s:%d: %s: %s\n", s.File, e.Line, s.object(), e.Message)
	}
	if s.Valid {
		checked := "its target is not in the files, so that roles, kinds and names were not checked against it"
		if s.Target != "" {
			checked = "checked against its target in " + s.Target
		}
		fmt.Fprintf(out, "%s:%d: %s is valid; %s\n", s.File, s.Line, s.object(), checked)
	}
	for _, w := range s.Warnings {
		fmt.Fprintf(errs, "Warning: %s:%d: %s: %s\n", s.File, s.Line, s.object(), w)
	}
}
