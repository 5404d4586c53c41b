package controlplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Root of the module: the nearest directory upwards with a go.mod.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the root of the module: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("finding the root of the module: no go.mod in any directory upwards: start inside the repository")
		}
		dir = parent
	}
}

// Binary is the path of a program that `make build` has built.
func Binary(name string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, "bin", name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("looking for bin/%s: it is not built: run `make build` (7 to 10 minutes the first time): %w", name, err)
	}
	return path, nil
}
