package controlplane

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// Apply applies manifest files, in paths relative to the root of the module; CRDs among them are served when it returns.
func Apply(ctx context.Context, kubeconfig string, paths ...string) error {
	apply := []string{"apply", "--server-side", "--force-conflicts"}
	wait := []string{"wait", "--for=condition=Established", "--timeout=60s"}
	for _, path := range paths {
		apply = append(apply, "-f", path)
		wait = append(wait, "-f", path)
	}
	if _, err := Kubectl(ctx, kubeconfig, apply...); err != nil {
		return err
	}
	_, err := Kubectl(ctx, kubeconfig, wait...)
	return err
}

// Kubectl runs kubectl in the root of the module and returns what it printed.
func Kubectl(ctx context.Context, kubeconfig string, args ...string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	devcluster, err := Binary("devcluster")
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, devcluster, append([]string{"kubectl", "--kubeconfig", kubeconfig}, args...)...)
	cmd.Dir = root
	output, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("running kubectl %s: %w: %s", strings.Join(args, " "), err, output)
	}
	return string(output), nil
}
