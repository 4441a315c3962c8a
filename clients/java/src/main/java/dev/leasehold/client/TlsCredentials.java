package dev.leasehold.client;

import java.util.Optional;

/**
 * Which certificate authorities to trust, and which certificate to show; immutable. Made by {@link
 * #trusting}.
 */
public final class TlsCredentials {
  /** A certificate to show, and its key. */
  static final class Identity {
    final byte[] certificate;
    final byte[] privateKey;

    private Identity(byte[] certificate, byte[] privateKey) {
      this.certificate = certificate;
      this.privateKey = privateKey;
    }
  }

  private final byte[] authority;
  private final Optional<Identity> identity;

  private TlsCredentials(byte[] authority, Optional<Identity> identity) {
    this.authority = authority;
    this.identity = identity;
  }

  /**
   * Trusts these certificate authorities and no others: the system's are not trusted.
   *
   * @param caPem one or more certificates
   * @return the credentials, with no certificate to show
   */
  public static TlsCredentials trusting(byte[] caPem) {
    return new TlsCredentials(caPem.clone(), Optional.empty());
  }

  /**
   * Shows this certificate to a sidecar that asks for one.
   *
   * @param pem the certificate, and those between it and its authority
   * @param keyPem its private key, PKCS #8, not encrypted
   * @return credentials like these, with this certificate
   */
  public TlsCredentials withClientCertificate(byte[] pem, byte[] keyPem) {
    return new TlsCredentials(authority, Optional.of(new Identity(pem.clone(), keyPem.clone())));
  }

  byte[] authority() {
    return authority;
  }

  Optional<Identity> identity() {
    return identity;
  }

  /** Without the key (S20). */
  @Override
  public String toString() {
    return "TlsCredentials[" + (identity.isPresent() ? "with" : "without") + " a certificate]";
  }
}
