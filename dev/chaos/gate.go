package main

import "sync"

// gate lets pass or holds.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // closed while it is open; nil before it was ever shut
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened = make(chan struct{})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}

// wait until the gate is open, or done is closed.
func (g *gate) wait(done <-chan struct{}) {
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	if opened == nil {
		return
	}
	select {
	case <-opened:
	case <-done:
	}
}
