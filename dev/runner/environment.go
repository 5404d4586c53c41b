package runner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// environment is what the program gets: PATH and temporary folder of this machine, the container's env, and KUBECONFIG
// where the Pod has a service account token.
func (p *pod) environment(ctx context.Context) ([]string, error) {
	env := []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "HOSTNAME=" + p.object.Name}
	for _, e := range p.object.Spec.Containers[0].Env {
		value, err := p.value(e)
		if err != nil {
			return nil, err
		}
		env = append(env, e.Name+"="+p.localPaths(expand(value, env)))
	}
	if err := p.mount(ctx); err != nil {
		return nil, err
	}
	if !automounts(p.object) {
		return env, nil
	}
	kubeconfig, err := p.writeKubeconfig(ctx)
	if err != nil {
		return nil, err
	}
	return append(env, "KUBECONFIG="+kubeconfig), nil
}

// value resolves one variable: literal, or a field by the downward API.
func (p *pod) value(e corev1.EnvVar) (string, error) {
	if e.ValueFrom == nil {
		return e.Value, nil
	}
	if e.ValueFrom.FieldRef != nil {
		fields := map[string]string{
			"metadata.name": p.object.Name, "metadata.namespace": p.object.Namespace, "metadata.uid": string(p.object.UID),
			"spec.nodeName": p.object.Spec.NodeName, "spec.serviceAccountName": p.object.Spec.ServiceAccountName, "status.podIP": p.ip,
		}
		if v, ok := fields[e.ValueFrom.FieldRef.FieldPath]; ok {
			return v, nil
		}
	}
	return "", fmt.Errorf("resolving env %s of pod %s: the runner knows literals and the fields name, namespace, uid, nodeName, serviceAccountName and podIP", e.Name, p.object.Name)
}

// arguments are the container's, with variables expanded and mounted paths turned to local ones.
func (p *pod) arguments(c corev1.Container, env []string) []string {
	args := slices.Clone(c.Args)
	for i := range args {
		args[i] = p.localPaths(expand(args[i], env))
	}
	return args
}

// localPaths replaces the mount paths of volumes by the folders that hold them here.
func (p *pod) localPaths(s string) string {
	for _, m := range p.object.Spec.Containers[0].VolumeMounts {
		s = strings.ReplaceAll(s, m.MountPath, filepath.Join(p.dir(), "volumes", m.Name))
	}
	return s
}

var reference = regexp.MustCompile(`\$\$|\$\(([A-Za-z_][-.A-Za-z0-9_]*)\)`)

// expand replaces $(NAME) as Kubernetes does: unknown names stay as they are, $$ is a dollar.
func expand(s string, env []string) string {
	return reference.ReplaceAllStringFunc(s, func(match string) string {
		if match == "$$" {
			return "$"
		}
		name := match[2 : len(match)-1]
		for _, e := range slices.Backward(env) {
			if value, found := strings.CutPrefix(e, name+"="); found {
				return value
			}
		}
		return match
	})
}

// automounts says whether the Pod gets a token. An unset field reads as true, as in Kubernetes; the service account's own
// setting is repeated in the shipped Deployments.
func automounts(p *corev1.Pod) bool {
	return p.Spec.AutomountServiceAccountToken == nil || *p.Spec.AutomountServiceAccountToken
}

// imageName is an image without its tag or digest.
func imageName(image string) string {
	name, _, _ := strings.Cut(image, "@")
	if i := strings.LastIndex(name, ":"); i > strings.LastIndex(name, "/") {
		name = name[:i]
	}
	return name
}
