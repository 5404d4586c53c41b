package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"

	"gpustack.ai/model-deployment-scaler/dev/controlplane"
)

// applyDefinitions applies our CRD and the stand-ins of dev/crds, and waits until they are served.
func (c *Cluster) applyDefinitions() error {
	for _, file := range [][]string{
		{"manifests", "crds", "worker.gpustack.ai_modeldeploymentscalers.yaml"},
		{"dev", "crds", "modeldeployments.yaml"}, {"dev", "crds", "workloads.yaml"},
	} {
		path, err := c.path(file...)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading a definition: %w", err)
		}
		if err := c.Apply(c.ctx, "", string(text)); err != nil {
			return err
		}
	}
	err := c.await("the definitions are served", func(ctx context.Context) (bool, error) {
		list, err := c.Dynamic.Resource(definitions).List(ctx, metav1.ListOptions{})
		return err == nil && !slices.ContainsFunc(list.Items, func(u unstructured.Unstructured) bool { return !established(u) }), err
	})
	c.mapper = nil // there are more kinds now
	return err
}

func established(u unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(item any) bool {
		condition, _ := item.(map[string]any)
		return condition["type"] == "Established" && condition["status"] == "True"
	})
}

// applyManifests applies what is shipped.
func (c *Cluster) applyManifests() error {
	objects, err := c.render()
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := c.apply(c.ctx, "", object); err != nil {
			return err
		}
	}
	return nil
}

// render the development overlay; namespaces come first.
func (c *Cluster) render() ([]*unstructured.Unstructured, error) {
	devcluster, err := controlplane.Binary("devcluster")
	if err != nil {
		return nil, err
	}
	overlay, err := c.path("manifests", "overlays", "dev")
	if err != nil {
		return nil, err
	}
	var failure bytes.Buffer
	cmd := exec.CommandContext(c.ctx, devcluster, "kubectl", "kustomize", overlay)
	cmd.Stderr = &failure
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w\n%s", overlay, err, failure.String())
	}
	objects, err := parse(string(text))
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return order(a) - order(b) })
	return objects, err
}

func order(u *unstructured.Unstructured) int {
	if u.GetKind() == "Namespace" {
		return 0
	}
	return 1
}

// Apply applies objects of a YAML text by server-side apply, as administrator, in a namespace where they name none.
func (c *Cluster) Apply(ctx context.Context, namespace, text string) error {
	objects, err := parse(text)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := c.apply(ctx, namespace, object); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) apply(ctx context.Context, namespace string, u *unstructured.Unstructured) error {
	client, err := c.resource(u, namespace)
	if err != nil {
		return err
	}
	if _, err := client.Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: "harness", Force: true}); err != nil {
		return fmt.Errorf("applying %s %s: %w", u.GetKind(), u.GetName(), err)
	}
	return nil
}

func (c *Cluster) resource(u *unstructured.Unstructured, namespace string) (dynamic.ResourceInterface, error) {
	if c.mapper == nil {
		groups, err := restmapper.GetAPIGroupResources(c.Kube.Discovery())
		if err != nil {
			return nil, fmt.Errorf("asking which kinds are served: %w", err)
		}
		c.mapper = restmapper.NewDiscoveryRESTMapper(groups)
	}
	kind := u.GroupVersionKind()
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, fmt.Errorf("applying %s %s: %w", u.GetKind(), u.GetName(), err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return c.Dynamic.Resource(mapping.Resource), nil
	}
	if u.GetNamespace() != "" {
		namespace = u.GetNamespace()
	}
	return c.Dynamic.Resource(mapping.Resource).Namespace(namespace), nil
}

func parse(text string) (objects []*unstructured.Unstructured, err error) {
	for d := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096); ; {
		u := &unstructured.Unstructured{}
		err := d.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading YAML: %w", err)
		}
		if len(u.Object) > 0 {
			objects = append(objects, u)
		}
	}
}
