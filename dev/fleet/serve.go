package fleet

import (
	"bytes"
	"net/http"
	"sync"
)

// buffers for pages: a page is up to 100 KB.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 128<<10); return &b }}

func (l *listeners) handler(s *served) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	if s.leader {
		mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) { l.metrics(w, r, s) })
	}
	return mux
}

func (l *listeners) metrics(w http.ResponseWriter, r *http.Request, s *served) {
	fault := Fault(s.fault.Load())
	switch fault {
	case Hangs:
		<-r.Context().Done()
		return
	case Failing:
		http.Error(w, "the simulated engine is broken on request", http.StatusInternalServerError)
		return
	case Garbage:
		_, _ = w.Write(bytes.Repeat([]byte("\x00}{ no exposition \xff\n"), 100)) // a reader that went away is no failure
		return
	case Endless:
		endless(w)
		return
	}
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	page, ok := l.page((*buffer)[:0], s.key, s.id)
	*buffer = page
	if !ok {
		http.Error(w, "the simulated engine is loading", http.StatusServiceUnavailable)
		return
	}
	page = lie(page, fault, s.lies.Add(1))
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(page) // as above
}

// endless writes until the reader goes away.
func endless(w http.ResponseWriter) {
	line := bytes.Repeat([]byte("vllm:endless{engine=\"0\"} 1.0\n"), 1000)
	for {
		if _, err := w.Write(line); err != nil {
			return
		}
	}
}
