package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

const (
	// quiet is how long the table may go without a row when nothing changes.
	quiet    = 10 * time.Second
	barWidth = 40
)

// screen prints the demo: lines that stay, and on a terminal one line at the bottom that is drawn anew.
type screen struct {
	out      io.Writer
	terminal bool
	began    time.Time

	last   moment
	lastAt time.Duration // of the last row; negative before the first
	bar    bool          // the bottom line is drawn
}

func newScreen(out *os.File) *screen {
	info, err := out.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &screen{out: out, terminal: terminal, began: time.Now(), lastAt: -1}
}

// line prints a line that stays.
func (s *screen) line(format string, args ...any) {
	s.done()
	fmt.Fprintf(s.out, format+"\n", args...)
}

func (s *screen) title(text string) { s.line("\n%s.\n", text) }

func (s *screen) step(text string) {
	s.line("  %5.1fs  %s", time.Since(s.began).Seconds(), text)
}

// refusedWrite is what only the scaler may do.
const refusedWrite = `-n demo patch md chat --type=json -p '[{"op": "replace", "path": "/spec/roles/0/replicas", "value": 9}]'   # is refused, and says why`

func (s *screen) commands(kubeconfig string) {
	s.line("\nLook for yourself, in another terminal, from the root of the repository:\n")
	s.line("  export KUBECONFIG=%s", kubeconfig)
	for _, command := range []string{"get mds -A -w", "get md -A -w", "-n demo describe mds chat", "explain mds.spec", refusedWrite} {
		s.line("  bin/devcluster kubectl %s", command)
	}
}

func (s *screen) header() {
	s.line("%5s  %6s  %9s  %5s  %7s  %3s  %11s  %-18s  %s", "TIME", "REQ/S", "IN FLIGHT", "READY", "DESIRED", "RAW", "CONSTRAINED", "REASON", "LAST DECISION")
}

// show a moment: a row when something moved or nothing did for a while, and the progress of the script.
func (s *screen) show(now moment, at time.Duration) {
	if s.lastAt < 0 || s.last.differs(now) || at-s.lastAt >= quiet {
		s.line("%4.0fs  %6.1f  %9d  %5d  %7d  %3d  %11d  %-18s  %s", at.Seconds(), now.rate, now.inFlight, now.ready, now.current, now.raw, now.constrained, now.reason, now.decision)
		s.last, s.lastAt = now, at
	}
	if s.terminal {
		fmt.Fprintf(s.out, "\r\x1b[2K%s", progress(at, now))
		s.bar = true
	}
}

// differs in what a row shows, but for the load, which moves all the time.
func (m moment) differs(n moment) bool {
	m.rate, m.inFlight, m.there = n.rate, n.inFlight, n.there
	return m != n
}

// progress of the scripted traffic, and what is awaited when it is over.
func progress(at time.Duration, now moment) string {
	part := min(1, at.Seconds()/scriptLength.Seconds())
	full := int(part * barWidth)
	bar := strings.Repeat("#", full) + strings.Repeat(".", barWidth-full)
	note := fmt.Sprintf("%.1f requests/s, %d in flight, %d of %d replicas ready", now.rate, now.inFlight, now.ready, now.current)
	if part == 1 {
		note = fmt.Sprintf("the load is gone; %d replicas, until it is 1", now.current)
	}
	return fmt.Sprintf("traffic [%s] %3.0f%%  %s", bar, part*100, note)
}

// done takes the bottom line away.
func (s *screen) done() {
	if s.bar {
		fmt.Fprint(s.out, "\r\x1b[2K")
		s.bar = false
	}
}
