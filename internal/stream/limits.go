package stream

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// MaxMessage is the size in bytes of one gRPC message (D45).
const MaxMessage = 1 << 20

// Limits of what is taken from the wire. Nothing that a cluster can hold comes near them, save maxPods: the caps of D2 end
// at 1024, and Pods beyond the cap are only counted.
const (
	maxRoles     = 1 << 14 // roles of one assignment, upserts and removals each
	maxPods      = 2048    // of one role
	maxBuckets   = 512     // of one latency
	maxUncovered = 64      // Pods of one observation
	maxText      = 256     // bytes of a name or a message
	maxPath      = 1024    // bytes of a URL path

	// maxDuration is what a longer one is read as: ages grow by addition, and one that overflowed would be the newest of all.
	maxDuration = 365 * 24 * time.Hour
)

// decoder checks what comes from the wire and keeps the first fault, named by its field.
type decoder struct{ err error }

func (d *decoder) fail(field, format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("field %s: "+format, append([]any{field}, args...)...)
	}
}

// list says whether n elements may be read.
func (d *decoder) list(field string, n, limit int) bool {
	if n > limit {
		d.fail(field, "%d elements, at most %d are allowed", n, limit)
	}
	return n <= limit
}

func (d *decoder) text(field, s string, limit int) string {
	if len(s) > limit {
		d.fail(field, "%d bytes, at most %d are allowed", len(s), limit)
		return ""
	}
	return s
}

func (d *decoder) name(field, s string) string {
	if s == "" {
		d.fail(field, "must not be empty")
	}
	return d.text(field, s, maxText)
}

func (d *decoder) address(field, s string) string {
	if a, err := netip.ParseAddr(s); err != nil || a.Zone() != "" {
		d.fail(field, "must be an IP address")
		return ""
	}
	return s
}

func (d *decoder) count(field string, n int32) int {
	if n < 0 {
		d.fail(field, "%d is negative", n)
	}
	return int(n)
}

func (d *decoder) number(field string, f float64) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) || f < 0 {
		d.fail(field, "%v is not a finite number from 0", f)
		return 0
	}
	return f
}

func (d *decoder) value(field string, f *float64) observe.Value {
	if f == nil {
		return observe.Value{}
	}
	return observe.Known(d.number(field, *f))
}

// duration reads absent as 0.
func (d *decoder) duration(field string, p *durationpb.Duration) time.Duration {
	if p == nil {
		return 0
	}
	if p.CheckValid() != nil || p.AsDuration() < 0 {
		d.fail(field, "%d.%09d s is not a duration from 0", p.GetSeconds(), p.GetNanos())
		return 0
	}
	return min(p.AsDuration(), maxDuration)
}

// time reads absent as the zero time.
func (d *decoder) time(field string, p *timestamppb.Timestamp) time.Time {
	if p == nil {
		return time.Time{}
	}
	if p.CheckValid() != nil {
		d.fail(field, "%d.%09d s since 1970 is not a time of the years 1 to 9999", p.GetSeconds(), p.GetNanos())
		return time.Time{}
	}
	return p.AsTime()
}

// cleanText makes text for people fit the wire: valid UTF-8, at most maxText bytes.
func cleanText(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= maxText {
		return s
	}
	end := maxText
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// cleanName makes a name valid UTF-8, without which a message cannot be sent at all.
func cleanName(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// cleanCount fits a count into the wire's.
func cleanCount(n int) int32 { return int32(max(0, min(n, math.MaxInt32))) }
