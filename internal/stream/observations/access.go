package observations

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/util/cache"
)

const (
	// What the API server said is believed for so long: a right that is taken away ends within twice of it, a right that is
	// given works at once, nearly.
	allowedFor = time.Minute
	refusedFor = 5 * time.Second
	// maxRemembered answers of each kind; the ones that were not used for the longest time go first.
	maxRemembered = 4096
	// reviewTimeout bounds one question.
	reviewTimeout = 5 * time.Second
)

// Reviewer asks the API server. A sentence that is not empty says why not; an error, that there was no answer.
type Reviewer interface {
	// Authenticate says whose token this is; it must be valid for this service's audience.
	Authenticate(ctx context.Context, token string) (user authenticationv1.UserInfo, why string, err error)
	// MayWatch says whether a user may watch scalers of a namespace; of all when it is empty.
	MayWatch(ctx context.Context, user authenticationv1.UserInfo, namespace string) (why string, err error)
}

// AccessOptions say who may call.
type AccessOptions struct {
	// Audience that tokens must be for.
	Audience string
	// Copies accepts the certificate of another copy of the decider, People that of a user; People is nil when certificates
	// of users are not accepted. Each verifies the chain.
	Copies, People func(chain []*x509.Certificate) error
	Reviewer       Reviewer
}

// access knows callers and their rights.
type access struct {
	AccessOptions
	metrics metrics
	tokens  *cache.LRUExpireCache // of answer, by hash of the token
	rights  *cache.LRUExpireCache // of answer, by user and namespace
}

func newAccess(o AccessOptions, m metrics) *access {
	return &access{AccessOptions: o, metrics: m, tokens: cache.NewLRUExpireCache(maxRemembered), rights: cache.NewLRUExpireCache(maxRemembered)}
}

// caller is who makes a call. A copy of the decider forwards: it has authorised its own caller.
type caller struct {
	user authenticationv1.UserInfo
	copy bool
}

// answer of the API server.
type answer struct {
	user authenticationv1.UserInfo
	why  string
}

// caller is known by the token, when one is sent, else by the certificate.
func (a *access) caller(ctx context.Context) (caller, error) {
	if token, sent := bearer(ctx); sent {
		return a.byToken(ctx, token)
	}
	if chain := certificates(ctx); len(chain) > 0 {
		return a.byCertificate(chain)
	}
	a.metrics.refused.WithLabelValues(refusedAnonymous).Inc()
	return caller{}, status.Errorf(codes.Unauthenticated, "who calls is not known: send %s", a.credentials())
}

// credentials that are accepted, in words.
func (a *access) credentials() string {
	token := fmt.Sprintf("a bearer token for audience %s (kubectl create token SERVICE_ACCOUNT --audience %s)", a.Audience, a.Audience)
	if a.People == nil {
		return token
	}
	return token + ", or a client certificate"
}

func (a *access) byToken(ctx context.Context, token string) (caller, error) {
	hash := sha256.Sum256([]byte(token))
	known, err := remembered(a.tokens, hash, func() (answer, error) {
		ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
		defer cancel()
		user, why, err := a.Reviewer.Authenticate(ctx, token)
		return answer{user, why}, err
	})
	if err != nil {
		return caller{}, a.unanswered(err)
	}
	if known.why != "" {
		a.metrics.refused.WithLabelValues(refusedToken).Inc()
		return caller{}, status.Errorf(codes.Unauthenticated, "the token is not accepted: %s; send %s", known.why, a.credentials())
	}
	return caller{user: known.user}, nil
}

// byCertificate reads a certificate as Kubernetes does: the common name is the user, organizations are his groups.
func (a *access) byCertificate(chain []*x509.Certificate) (caller, error) {
	if a.Copies(chain) == nil {
		return caller{copy: true}, nil
	}
	why := "certificates of clients are not accepted here"
	subject := chain[0].Subject
	if a.People != nil {
		err := a.People(chain)
		switch {
		case err != nil:
			why = err.Error()
		case subject.CommonName == "":
			why = "it has no common name, which is the name of the user"
		default:
			groups := slices.Concat(subject.Organization, []string{"system:authenticated"})
			return caller{user: authenticationv1.UserInfo{Username: subject.CommonName, Groups: groups}}, nil
		}
	}
	a.metrics.refused.WithLabelValues(refusedCertificate).Inc()
	return caller{}, status.Errorf(codes.Unauthenticated, "the client certificate is not accepted: %s; send %s", why, a.credentials())
}

// authorise asks whether the caller may watch a namespace; all of them when it is empty.
func (a *access) authorise(ctx context.Context, c caller, namespace string) error {
	if c.copy {
		return nil
	}
	id, err := json.Marshal(struct {
		User      authenticationv1.UserInfo
		Namespace string
	}{c.user, namespace})
	if err != nil {
		return status.Errorf(codes.Internal, "naming a question: %v", err)
	}
	known, err := remembered(a.rights, string(id), func() (answer, error) {
		ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
		defer cancel()
		why, err := a.Reviewer.MayWatch(ctx, c.user, namespace)
		return answer{why: why}, err
	})
	if err != nil {
		return a.unanswered(err)
	}
	if known.why != "" {
		a.metrics.refused.WithLabelValues(refusedForbidden).Inc()
		return status.Error(codes.PermissionDenied, known.why)
	}
	return nil
}

func (a *access) unanswered(err error) error {
	a.metrics.refused.WithLabelValues(refusedReview).Inc()
	return status.Errorf(codes.Unavailable, "the API server could not be asked about the caller: %v; try again", err)
}

// remembered is the answer to a question that was asked not long ago, or a new one.
func remembered(known *cache.LRUExpireCache, question any, ask func() (answer, error)) (answer, error) {
	if a, found := known.Get(question); found {
		return a.(answer), nil
	}
	a, err := ask()
	if err != nil {
		return answer{}, err
	}
	if a.why == "" {
		known.Add(question, a, allowedFor)
	} else {
		known.Add(question, a, refusedFor)
	}
	return a, nil
}

// bearer is the token of a call.
func bearer(ctx context.Context) (token string, sent bool) {
	md, _ := metadata.FromIncomingContext(ctx)
	for _, value := range md.Get("authorization") {
		scheme, token, _ := strings.Cut(value, " ")
		if token = strings.TrimSpace(token); strings.EqualFold(scheme, "bearer") && token != "" {
			return token, true
		}
	}
	return "", false
}

// certificates that the caller has proved to hold the key of; nobody has verified who signed them.
func certificates(ctx context.Context) []*x509.Certificate {
	p, _ := peer.FromContext(ctx)
	if p == nil {
		return nil
	}
	info, _ := p.AuthInfo.(credentials.TLSInfo)
	return info.State.PeerCertificates
}
