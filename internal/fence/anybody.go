package fence

import "fmt"

// Rules for a deployment that is being created, and for everybody who is not the decider.

func noOwnerAtBirth(w *write) *Refusal {
	if !w.binding.is && !w.decision.is {
		return nil
	}
	return w.refuse(CreatedWithOwner, "a deployment cannot be created with the annotation %s or %s, which the scaler's controller "+
		"writes once the deployment exists: leave them out", BindingAnnotation, DecisionAnnotation)
}

// bindingNotInstalled: on an unbound deployment nobody installs a binding for somebody.
func bindingNotInstalled(w *write) *Refusal {
	if !w.binding.is {
		return nil
	}
	return w.refuse(AnnotationOwned, "the annotation %s can only be written by the scaler's controller: to bind the deployment, "+
		"create a ModelDeploymentScaler in mode Active", BindingAnnotation)
}

// decisionNotWritten: where no binding stands, a left-over decision may be deleted, never written (D35).
func decisionNotWritten(w *write) *Refusal {
	if !w.decision.written() {
		return nil
	}
	return w.refuse(AnnotationOwned, "the annotation %s can only be written by the scaler's controller: leave it as it is, or "+
		"remove it", DecisionAnnotation)
}

func countsKept(w *write) *Refusal {
	if !w.counts {
		return nil
	}
	return w.refuse(CountsOwned, "the replica counts belong to %s, and this write would change %s. %s",
		w.ownerName(), difference(w.Old.Counts, w.New.Counts), w.wayOut())
}

// bindingKeptOrOrphaned: a standing binding may be removed only when the scaler it names is absent or another one by now,
// which a live read decides (spec "Binding fence").
func bindingKeptOrOrphaned(w *write) *Refusal {
	if !w.binding.changed() {
		return nil
	}
	if !w.binding.removed() {
		return w.refuse(AnnotationOwned, "the annotation %s belongs to %s and cannot be changed. %s",
			BindingAnnotation, w.ownerName(), w.wayOut())
	}
	scaler, err := w.Facts.Scaler(w.owner.ScalerName)
	if err != nil {
		return w.refuse(FactsNotAvailable, "the annotation %s can only be removed when %s is gone, and looking that up failed, "+
			"try again: %v", BindingAnnotation, w.ownerName(), err)
	}
	if scaler != nil && scaler.UID == w.owner.ScalerUID {
		return w.refuse(BindingNotOrphan, "the annotation %s can only be removed when its scaler is gone, and %s is still there. %s",
			BindingAnnotation, w.ownerName(), w.wayOut())
	}
	return nil
}

// decisionKept: the decision of a bound deployment stays; with an orphaned binding it may go in the same write, because it
// could go in the next.
func decisionKept(w *write) *Refusal {
	if !w.decision.changed() || w.binding.removed() && w.decision.removed() {
		return nil
	}
	return w.refuse(AnnotationOwned, "the annotation %s belongs to %s and cannot be changed. %s",
		DecisionAnnotation, w.ownerName(), w.wayOut())
}

// bindingRemovedOrPutBack: an unreadable binding names no owner, so anybody may remove it. Putting a readable one in its
// place is a repair only if it is the one that the scaler it names has on record; anything else would install a binding for
// somebody.
func bindingRemovedOrPutBack(w *write) *Refusal {
	if !w.binding.written() {
		return nil
	}
	binding, err := ParseBinding(w.binding.after)
	if err != nil {
		return w.refuse(BindingNotRestore, "the annotation %s could not be read and still cannot: remove it (%v)",
			BindingAnnotation, err)
	}
	scaler, err := w.Facts.Scaler(binding.ScalerName)
	if err != nil {
		return w.refuse(FactsNotAvailable, "the annotation %s can only be put back as its scaler has it on record, and looking "+
			"that up failed, try again or remove the annotation: %v", BindingAnnotation, err)
	}
	recorded := scaler != nil && binding == Binding{binding.ScalerName, scaler.UID, scaler.Term} && scaler.TargetUID == w.Old.UID
	if !recorded || w.counts {
		return w.refuse(BindingNotRestore, "the annotation %s can only be put back exactly as status.binding of the scaler that it "+
			"names records it, without changing a count: remove the annotation to let a scaler bind again", BindingAnnotation)
	}
	return nil
}

func (w *write) refuse(reason Reason, format string, args ...any) *Refusal {
	return refuse(reason, fmt.Sprintf("ModelDeployment %s/%s: ", w.Namespace, w.Name)+fmt.Sprintf(format, args...))
}

func (w *write) ownerName() string {
	return fmt.Sprintf("ModelDeploymentScaler %s (uid %s, term %d)", w.owner.ScalerName, w.owner.ScalerUID, w.owner.Term)
}

// wayOut tells a person what to do instead.
func (w *write) wayOut() string {
	return fmt.Sprintf("To set counts yourself, let go of the deployment first: suspend scaler %s, set its mode to Shadow, or delete "+
		"it; if it is gone already, remove the annotation %s by itself. To move the bounds, edit the scaler. A GitOps controller has "+
		"to leave the replica counts and both scaler annotations alone: `kubectl mds gitops %s -n %s` prints how (documentation: "+
		"GitOps sync)", w.owner.ScalerName, BindingAnnotation, w.Name, w.Namespace)
}
