package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

var (
	// binary is the devcluster under test.
	binary string
	// shared is a running cluster for all tests that only put objects in it.
	shared *instance
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "devcluster-e2e-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if binary, err = program(dir); err != nil {
		return 0, err
	}
	if shared, err = launch(dir); err != nil {
		return 0, err
	}
	defer func() {
		if stopErr := shared.terminate(); err == nil {
			err = stopErr
		}
	}()
	if err := shared.waitReady(); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// program is the one that DEVCLUSTER names, or is built.
func program(dir string) (string, error) {
	if built := os.Getenv("DEVCLUSTER"); built != "" {
		return built, nil
	}
	path := filepath.Join(dir, "devcluster")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building devcluster: %w\n%s", err, output)
	}
	return path, nil
}
