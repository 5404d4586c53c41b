// Package keep is what programs have in common that keep their own certificates in Secrets: a Secret by name, the loop that
// looks at it whenever something has changed, and how long nothing has.
//
// It reads and updates what is there, and never creates or deletes. What is kept is for package authority to say. Packages
// decider and webhook use it.
package keep
