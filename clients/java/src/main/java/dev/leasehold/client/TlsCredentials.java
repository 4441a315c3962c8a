package dev.leasehold.client;

import io.grpc.netty.GrpcSslContexts;
import io.netty.handler.ssl.SslContext;
import io.netty.handler.ssl.SslContextBuilder;
import java.io.ByteArrayInputStream;
import java.util.Optional;
import javax.net.ssl.SSLException;

/**
 * Which certificate authorities to trust, and which certificate to show; immutable. Made by {@link
 * #trusting}.
 */
public final class TlsCredentials {
  /** A certificate to show, and its key. */
  private static final class Identity {
    private final byte[] certificate;
    private final byte[] privateKey;

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

  /** What connections are encrypted with. */
  SslContext context() throws SSLException {
    SslContextBuilder context =
        GrpcSslContexts.forClient().trustManager(new ByteArrayInputStream(authority));
    identity.ifPresent(
        own ->
            context.keyManager(
                new ByteArrayInputStream(own.certificate),
                new ByteArrayInputStream(own.privateKey)));
    return context.build();
  }

  /** Without the key (S20). */
  @Override
  public String toString() {
    return "TlsCredentials[" + (identity.isPresent() ? "with" : "without") + " a certificate]";
  }
}
