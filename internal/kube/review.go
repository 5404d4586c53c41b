package kube

import (
	"context"
	"fmt"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
)

// Reviews have a request budget of their own: callers must not slow planning down.
const (
	reviewQPS   = 20
	reviewBurst = 40
)

// Reviewer asks the API server who a token belongs to and what a user may do.
type Reviewer struct {
	core     kubernetes.Interface
	audience string
}

// NewReviewer makes a reviewer of tokens for an audience.
func NewReviewer(config *rest.Config, audience string) (*Reviewer, error) {
	c := rest.CopyConfig(config)
	c.QPS, c.Burst = reviewQPS, reviewBurst
	core, err := kubernetes.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("making a client for reviews: %w", err)
	}
	return &Reviewer{core: core, audience: audience}, nil
}

// Authenticate says whose token this is; or why it is none of anybody's, in a sentence; or that there was no answer. A token
// must be for the reviewer's audience: one that is good for the API server alone must not be taken from whoever was shown it.
func (r *Reviewer) Authenticate(ctx context.Context, token string) (user authenticationv1.UserInfo, why string, err error) {
	review, err := r.core.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{r.audience}},
	}, metav1.CreateOptions{})
	switch {
	case err != nil:
		return user, "", fmt.Errorf("reviewing a token: %w", err)
	case !review.Status.Authenticated && review.Status.Error != "":
		return user, review.Status.Error, nil
	case !review.Status.Authenticated:
		return user, "it is not valid", nil
	case !slices.Contains(review.Status.Audiences, r.audience): // an authenticator that knows no audiences
		return user, "it is not for this audience", nil
	}
	return review.Status.User, "", nil
}

// MayWatch says why a user may not watch scalers of a namespace (of all, when it is empty), with the way out; empty when he
// may.
func (r *Reviewer) MayWatch(ctx context.Context, user authenticationv1.UserInfo, namespace string) (why string, err error) {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, value := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(value)
	}
	review, err := r.core.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: namespace, Verb: "watch", Group: workerv1.GroupName, Version: "*", Resource: workerv1.Resource,
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("reviewing the rights of %s: %w", user.Username, err)
	}
	if review.Status.Allowed && !review.Status.Denied {
		return "", nil
	}
	if namespace == "" {
		return fmt.Sprintf("%s may not watch %s.%s in all namespaces: name one, or bind the ClusterRole model-deployment-scaler-view with a ClusterRoleBinding",
			user.Username, workerv1.Resource, workerv1.GroupName), nil
	}
	return fmt.Sprintf("%s may not watch %s.%s in namespace %s: bind the ClusterRole view, or model-deployment-scaler-view, with a RoleBinding there",
		user.Username, workerv1.Resource, workerv1.GroupName, namespace), nil
}
