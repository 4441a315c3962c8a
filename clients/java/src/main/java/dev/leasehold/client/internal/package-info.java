/**
 * Internal, with all packages below it: what a client of gRPC is made of. Anything here may change,
 * or go, in any version.
 */
package dev.leasehold.client.internal;
