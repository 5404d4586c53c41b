package fence

// HTTP statuses of refusals.
const (
	forbidden   = 403
	unavailable = 503 // trying again can help
)

// Reason names the rule that refused a write.
type Reason string

// The reasons.
const (
	// Writes of anybody but the decider.
	AnnotationOwned   Reason = "AnnotationOwned"   // the two annotations are written by the decider alone
	CountsOwned       Reason = "CountsOwned"       // the counts of a bound deployment are its scaler's
	BindingNotOrphan  Reason = "BindingNotOrphan"  // the scaler that a binding names is still there
	BindingNotRestore Reason = "BindingNotRestore" // an unreadable binding may be removed or put back, nothing else

	// Writes of the decider.
	NotBound          Reason = "NotBound"          // counts move only under a binding
	InvalidBinding    Reason = "InvalidBinding"    // the binding cannot be read, or a standing one was replaced
	InvalidDecision   Reason = "InvalidDecision"   // the decision cannot be read
	RolesChanged      Reason = "RolesChanged"      // a commit changes counts, not roles
	StaleTerm         Reason = "StaleTerm"         // the term fell, or is not the binding's
	DecisionMismatch  Reason = "DecisionMismatch"  // counts and decision do not say the same
	StaleDecision     Reason = "StaleDecision"     // the sequence did not grow within the term
	StaleEpoch        Reason = "StaleEpoch"        // another decider leads
	CreatedWithOwner  Reason = "CreatedWithOwner"  // a new deployment has no owner yet
	FactsNotAvailable Reason = "FactsNotAvailable" // a live read failed; try again
)

// Refusal says why a write is refused, in sentences for the person or program that sent it.
type Refusal struct { //nolint:errname // a verdict first; an error only for whoever returns it as one
	Reason Reason
	// Message names the deployment, the owner where there is one, the rule and the way out.
	Message string
	// Code is the HTTP status.
	Code int32
}

// Error makes a refusal the error of the write.
func (r *Refusal) Error() string { return r.Message }

func refuse(reason Reason, message string) *Refusal {
	code := int32(forbidden)
	if reason == FactsNotAvailable {
		code = unavailable
	}
	return &Refusal{Reason: reason, Message: message, Code: code}
}
