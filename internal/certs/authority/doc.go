// Package authority makes certificates: authorities of one's own, and the leaves that they sign. Kept is what a program
// that makes its own keeps, and Kept.Renew what becomes of it as time passes.
//
// It knows neither clock nor files nor cluster: times come in, PEM goes out. Who keeps the result, and tells whoever verifies,
// is the business of package keep and its callers.
package authority
