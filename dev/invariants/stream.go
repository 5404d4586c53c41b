package invariants

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// stream is what was seen of one kind.
type stream[T any] struct {
	lines map[string]line[T] // by UID
	gaps  []uint64           // versions after which some of the kind may be missing
}

// line are the versions of one object, oldest first.
type line[T any] []version[T]

type version[T any] struct {
	number uint64
	seen   time.Time
	object T
}

// put adds a version that is newer than those that are there.
func (s *stream[T]) put(u *unstructured.Unstructured, object T) {
	if s.lines == nil {
		s.lines = make(map[string]line[T])
	}
	uid := string(u.GetUID())
	if n := number(u); n > s.lines[uid].newest() {
		s.lines[uid] = append(s.lines[uid], version[T]{n, time.Now(), object})
	}
}

// gap notes that what follows may have left some out.
func (s *stream[T]) gap() {
	newest := uint64(0)
	for _, l := range s.lines {
		newest = max(newest, l.newest())
	}
	s.gaps = append(s.gaps, newest)
}

// missing says that versions between two may not have been seen.
func (s *stream[T]) missing(from, to uint64) bool {
	return slices.ContainsFunc(s.gaps, func(n uint64) bool { return from <= n && n < to })
}

func (l line[T]) newest() uint64 {
	if len(l) == 0 {
		return 0
	}
	return l[len(l)-1].number
}

// before is the newest version older than a number, and its own number; 0 when there is none.
func (l line[T]) before(number uint64) (object T, at uint64) {
	i, _ := slices.BinarySearchFunc(l, number, func(v version[T], n uint64) int { return cmp.Compare(v.number, n) })
	if i == 0 {
		return object, 0
	}
	return l[i-1].object, l[i-1].number
}

// number of a version; the API server counts all its writes.
func number(u *unstructured.Unstructured) uint64 {
	n, _ := strconv.ParseUint(u.GetResourceVersion(), 10, 64)
	return n
}
