/* Stands before the resolver of the C library in a sidecar: knows the storage's name, and does not while a file is there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int resolver(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    resolver *next = (resolver *)dlsym(RTLD_NEXT, "getaddrinfo");
    const char *name = getenv("STORM_NAME");
    if (name == NULL || node == NULL || strcmp(node, name) != 0) {
        return next(node, service, hints, found);
    }
    if (access(getenv("STORM_NAME_LOST"), F_OK) != 0) {
        return next("127.0.0.1", service, hints, found);
    }
    /* One byte for each name that was not resolved: the storm counts them. */
    FILE *refused = fopen(getenv("STORM_NAME_REFUSED"), "a");
    if (refused == NULL) {
        abort();
    }
    fputc('.', refused);
    fclose(refused);
    return EAI_AGAIN;
}
