package decide

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"gpustack.ai/model-deployment-scaler/internal/windows"
)

// Packed is a State as it is kept between passes: its histories, which are most of it, in a quarter of their room, and nothing
// in them for the garbage collector to look at. It never changes.
type Packed struct {
	rest      State // without histories
	histories []byte
}

// Pack makes the small form. Times keep their nanoseconds, not their location.
func (s State) Pack() Packed {
	var b []byte
	rest := s
	rest.Roles, rest.Predictors = slices.Clone(s.Roles), slices.Clone(s.Predictors)
	for i := range rest.Roles {
		b = packHistory(b, rest.Roles[i].History)
		rest.Roles[i].History = nil
	}
	for i := range rest.Predictors {
		b = packDemand(b, rest.Predictors[i].History)
		rest.Predictors[i].History = nil
	}
	return Packed{rest: rest, histories: slices.Clip(b)}
}

// State is what was packed. The caller may change its slices, but not what they point to.
func (p Packed) State() State {
	s, r := p.rest, reader(p.histories)
	s.Roles, s.Predictors = slices.Clone(s.Roles), slices.Clone(s.Predictors)
	for i := range s.Roles {
		s.Roles[i].History = r.history()
	}
	for i := range s.Predictors {
		s.Predictors[i].History = r.demand()
	}
	return s
}

// packHistory writes how many entries there are, and of each the seconds since the one before, its nanoseconds and its count.
func packHistory(b []byte, h windows.History) []byte {
	b = binary.AppendUvarint(b, uint64(len(h)))
	before := int64(0)
	for _, e := range h {
		b = packTime(b, e.At, before)
		b = binary.AppendVarint(b, int64(e.Replicas))
		before = e.At.Unix()
	}
	return b
}

func packDemand(b []byte, a windows.Average) []byte {
	b = binary.AppendUvarint(b, uint64(len(a)))
	before := int64(0)
	for _, e := range a {
		b = packTime(b, e.At, before)
		b = binary.AppendVarint(b, int64(e.Span))
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(e.PerSecond))
		b = append(b, 0)
		if e.Partial {
			b[len(b)-1] = 1
		}
		before = e.At.Unix()
	}
	return b
}

func packTime(b []byte, t time.Time, before int64) []byte {
	return binary.AppendUvarint(binary.AppendVarint(b, t.Unix()-before), uint64(t.Nanosecond()))
}

// reader reads what was packed, from the front.
type reader []byte

func (r *reader) history() windows.History {
	n, before := r.unsigned(), int64(0)
	if n == 0 {
		return nil
	}
	h := make(windows.History, n)
	for i := range h {
		h[i] = windows.Recommendation{At: r.time(&before), Replicas: int32(r.signed())}
	}
	return h
}

func (r *reader) demand() windows.Average {
	n, before := r.unsigned(), int64(0)
	if n == 0 {
		return nil
	}
	a := make(windows.Average, n)
	for i := range a {
		a[i] = windows.Rate{At: r.time(&before), Span: time.Duration(r.signed()), PerSecond: math.Float64frombits(binary.LittleEndian.Uint64(*r)), Partial: (*r)[8] == 1}
		*r = (*r)[9:]
	}
	return a
}

func (r *reader) time(before *int64) time.Time {
	*before += r.signed()
	return time.Unix(*before, int64(r.unsigned()))
}

func (r *reader) signed() int64 {
	v, n := binary.Varint(*r)
	*r = (*r)[n:]
	return v
}

func (r *reader) unsigned() uint64 {
	v, n := binary.Uvarint(*r)
	*r = (*r)[n:]
	return v
}
