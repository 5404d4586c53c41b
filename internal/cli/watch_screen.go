package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
)

// screen draws a table in place on a terminal: rows are replaced, not added.
type screen struct {
	out  io.Writer
	all  bool
	size func() (width, height int)
	now  func() time.Time

	rows   map[rowKey]*row
	round  int // of connections: a row that a complete snapshot does not have is gone
	status string
	drawn  int // lines of the last drawing
}

type rowKey struct{ namespace, scaler, role string }

type row struct {
	latest *observationv1.ScalerObservation
	at     time.Time // it arrived
	round  int
}

func newScreen(out io.Writer, all bool, size func() (width, height int)) *screen {
	return &screen{out: out, all: all, size: size, now: time.Now, rows: make(map[rowKey]*row), status: "waiting for the snapshot"}
}

func (s *screen) begin() { s.round++ }

func (s *screen) note(text string) { s.status = text }

func (s *screen) show(m *observationv1.ObservationServiceWatchResponse) error {
	switch {
	case m.GetObservation() != nil:
		o := m.GetObservation()
		s.rows[rowKey{o.GetNamespace(), o.GetScaler(), o.GetRole()}] = &row{latest: o, at: s.now(), round: s.round}
	case m.GetRemoved() != nil:
		r := m.GetRemoved()
		delete(s.rows, rowKey{r.GetNamespace(), r.GetScaler(), r.GetRole()})
	case m.GetSnapshotComplete() != nil:
		maps.DeleteFunc(s.rows, func(_ rowKey, r *row) bool { return r.round != s.round })
		s.status = answeredBy(m.GetSnapshotComplete())
		return s.refresh()
	}
	return nil
}

// refresh draws over what was drawn before.
func (s *screen) refresh() error {
	width, height := s.size()
	lines := s.lines(height)
	var b bytes.Buffer
	if s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.drawn) // up to the first line
	}
	for _, line := range lines {
		fmt.Fprintf(&b, "\r%s\x1b[K\n", cut(line, width)) // and clear what is left of the line
	}
	b.WriteString("\x1b[J") // and everything below
	s.drawn = len(lines)
	_, err := b.WriteTo(s.out)
	return err
}

// lines of the table, with the state of the connection below; no more than fit.
func (s *screen) lines(height int) []string {
	var b bytes.Buffer
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, strings.Join(headCells(s.all), "\t"))
	for _, k := range slices.SortedFunc(maps.Keys(s.rows), rowKey.compare) {
		r := s.rows[k]
		fmt.Fprintln(table, strings.Join(rowCells(r.latest, s.now().Sub(r.at), s.all), "\t"))
	}
	_ = table.Flush() // a buffer takes everything
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	foot := fmt.Sprintf("%s  roles: %d  %s", s.now().Format(time.TimeOnly), len(s.rows), s.status)
	room := max(height-2, 2) // the foot, and the line of the cursor
	if more := len(lines) - room; more > 0 {
		lines = lines[:room]
		foot = fmt.Sprintf("%s  roles: %d, %d more than fit: name a scaler, or -o json  %s", s.now().Format(time.TimeOnly), len(s.rows), more, s.status)
	}
	return append(lines, foot)
}

func (k rowKey) compare(o rowKey) int {
	return cmp.Or(cmp.Compare(k.namespace, o.namespace), cmp.Compare(k.scaler, o.scaler), cmp.Compare(k.role, o.role))
}

// cut a line to the width, so that it does not wrap and spoil the count of lines.
func cut(line string, width int) string {
	runes := []rune(printable(line))
	if len(runes) <= width || width < 2 {
		return string(runes)
	}
	return string(runes[:width-1]) + "…"
}

// printable makes one harmless line of text that others wrote: what would move the cursor becomes a space.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}
