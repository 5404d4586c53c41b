// Package ownership tests the promise of the binding fence from the outside: every combination of who writes what to which
// deployment, against the table in package fence and against a real API server with the real webhook, and the recipes of
// docs/gitops.md, as they are printed there.
//
// What the table expects comes from the spec ("Binding fence") and the decisions D34, D35, D38, D46, D47 and D52 alone: it
// uses neither the codec nor the rules of package fence, so a mistake there is not repeated here. Package fence's tests import
// it; nothing else does.
package ownership
