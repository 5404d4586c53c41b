package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// configurationName is that of both webhook configurations.
const configurationName = "model-deployment-scaler"

// configuration is where one of the two kinds is found.
type configuration struct {
	resource string
	client   dynamic.ResourceInterface
}

func configurations(client dynamic.Interface) (all []configuration) {
	for _, resource := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
		all = append(all, configuration{resource, client.Resource(admissionregistrationv1.SchemeGroupVersion.WithResource(resource))})
	}
	return all
}

// registered are the configurations as they are now. What is used of both kinds has the same shape.
type registered []registration

type registration struct {
	configuration
	version  string
	webhooks []admissionregistrationv1.ValidatingWebhook
}

// read the configurations. One that is not there calls nobody, and is left out.
func (k *keeper) read(ctx context.Context) (found registered, err error) {
	for _, c := range k.configs {
		object, err := c.client.Get(ctx, configurationName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", c.resource, configurationName, err)
		}
		var typed admissionregistrationv1.ValidatingWebhookConfiguration
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &typed); err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", c.resource, configurationName, err)
		}
		found = append(found, registration{c, typed.ResourceVersion, typed.Webhooks})
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("reading webhook configurations: neither of the two named %s is there", configurationName)
	}
	return found, nil
}

// publish makes a bundle the caBundle of every webhook.
func (k *keeper) publish(ctx context.Context, found registered, bundle []byte) error {
	for _, r := range found {
		if r.holds(bundle) {
			continue
		}
		patch, err := r.patch(bundle)
		if err != nil {
			return fmt.Errorf("writing %s %s: %w", r.resource, configurationName, err)
		}
		if _, err := r.client.Patch(ctx, configurationName, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}); err != nil {
			return fmt.Errorf("writing %s %s: %w", r.resource, configurationName, err)
		}
		k.log.Info("wrote caBundle of " + r.resource)
	}
	return nil
}

// patch merges by the webhooks' names. The version makes sure that no webhook has gone meanwhile, which would come back.
func (r registration) patch(bundle []byte) ([]byte, error) {
	var hooks []any
	for _, hook := range r.webhooks {
		hooks = append(hooks, map[string]any{"name": hook.Name, "clientConfig": map[string]any{"caBundle": bundle}})
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": r.version}, "webhooks": hooks})
}

func (r registration) holds(bundle []byte) bool {
	return !slices.ContainsFunc(r.webhooks, func(hook admissionregistrationv1.ValidatingWebhook) bool {
		return !bytes.Equal(hook.ClientConfig.CABundle, bundle)
	})
}

// hold says whether every webhook has that bundle.
func (f registered) hold(bundle []byte) bool {
	return !slices.ContainsFunc(f, func(r registration) bool { return !r.holds(bundle) })
}

// accepts says why an API server would not accept the certificate.
func (f registered) accepts(cert []byte) (err error) {
	for _, r := range f {
		for _, hook := range r.webhooks {
			if cause := purpose(host(hook.ClientConfig)).Verify(hook.ClientConfig.CABundle, cert, time.Now()); cause != nil {
				err = errors.Join(err, fmt.Errorf("webhook %s: %w", hook.Name, cause))
			}
		}
	}
	return err
}

// names that API servers call the webhook by, for which the certificate must be.
func (f registered) names() (names []string) {
	for _, r := range f {
		for _, hook := range r.webhooks {
			names = append(names, host(hook.ClientConfig))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func host(c admissionregistrationv1.WebhookClientConfig) string {
	if c.Service != nil {
		return c.Service.Name + "." + c.Service.Namespace + ".svc"
	}
	if c.URL == nil {
		return ""
	}
	u, err := url.Parse(*c.URL)
	if err != nil {
		return ""
	}
	return u.Hostname()
}
