package kube

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
)

const testAudience = "decider.test.svc"

// viewer makes a service account that may watch scalers of the world's namespace, and gives a token of it.
func (w *world) viewer(name string, audiences ...string) string {
	w.t.Helper()
	core, ctx := w.client.Core, w.t.Context()
	_, err := core.CoreV1().ServiceAccounts(w.namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	meta := metav1.ObjectMeta{Name: name}
	_, err = core.RbacV1().Roles(w.namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{workerv1.GroupName}, Resources: []string{workerv1.Resource}, Verbs: []string{"watch"}},
	}}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	_, err = core.RbacV1().RoleBindings(w.namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: w.namespace, Name: name}},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	token, err := core.CoreV1().ServiceAccounts(w.namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: audiences},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	return token.Status.Token
}

func TestTheAPIServerSaysWhoATokenBelongsTo(t *testing.T) {
	w := newWorld(t)
	r, err := NewReviewer(w.cluster.Config(t), testAudience)
	require.NoError(t, err)

	user, why, err := r.Authenticate(t.Context(), w.viewer("right", testAudience))
	require.NoError(t, err)
	require.Empty(t, why)
	require.Equal(t, "system:serviceaccount:"+w.namespace+":right", user.Username)
	require.Contains(t, user.Groups, "system:serviceaccounts:"+w.namespace)

	for name, token := range map[string]string{
		"a token for the API server":      w.viewer("wrong"),
		"a token for another service":     w.viewer("other", "other.test.svc"),
		"a token that nobody ever issued": "garbage",
	} {
		t.Run(name, func(t *testing.T) {
			user, why, err := r.Authenticate(t.Context(), token)
			require.NoError(t, err)
			require.NotEmpty(t, why)
			require.Empty(t, user.Username)
		})
	}
}

func TestTheAPIServerSaysWhatAUserMayWatch(t *testing.T) {
	w := newWorld(t)
	r, err := NewReviewer(w.cluster.Config(t), testAudience)
	require.NoError(t, err)
	user, _, err := r.Authenticate(t.Context(), w.viewer("viewer", testAudience))
	require.NoError(t, err)

	require.Eventually(t, func() bool {
		why, err := r.MayWatch(t.Context(), user, w.namespace)
		return err == nil && why == ""
	}, patience, tick, "the right is in force")
	why, err := r.MayWatch(t.Context(), user, "default")
	require.NoError(t, err)
	require.Contains(t, why, user.Username+" may not watch modeldeploymentscalers.worker.gpustack.ai in namespace default: bind")
	why, err = r.MayWatch(t.Context(), user, "")
	require.NoError(t, err)
	require.Contains(t, why, "in all namespaces: name one")
	why, err = r.MayWatch(t.Context(), authenticationv1.UserInfo{Username: "root", Groups: []string{"system:masters"}}, "")
	require.NoError(t, err)
	require.Empty(t, why)
}

func TestAnAPIServerThatIsAwayIsAnErrorAndNoRefusal(t *testing.T) {
	r, err := NewReviewer(&rest.Config{Host: "http://127.0.0.1:1"}, testAudience)
	require.NoError(t, err)
	_, why, err := r.Authenticate(context.Background(), "token")
	require.ErrorContains(t, err, "reviewing a token")
	require.Empty(t, why)
	why, err = r.MayWatch(context.Background(), authenticationv1.UserInfo{Username: "ann"}, "a")
	require.ErrorContains(t, err, "reviewing the rights of ann")
	require.Empty(t, why)
}
