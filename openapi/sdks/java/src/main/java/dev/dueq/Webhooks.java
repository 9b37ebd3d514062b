package dev.dueq;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.MessageDigest;
import java.security.PublicKey;
import java.security.Signature;
import java.security.SignatureException;
import java.security.spec.X509EncodedKeySpec;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * Checks that a callback comes from dueq, by <a href="https://www.standardwebhooks.com">Standard Webhooks</a>: {@code
 * webhook-signature} holds HMAC-SHA256 over {@code webhook-id}, {@code webhook-timestamp} and the body, or an Ed25519 signature
 * where the secret is a public key of dueq's ({@code whpk_} and base64). A topic in the header {@code dueq-topic} is verified,
 * too: topics that share a secret are told apart by it. It is absent where the request is not from dueq.
 */
public final class Webhooks {
  /** How far the sender's clock may be away. */
  public static final Duration DEFAULT_TOLERANCE = Duration.ofMinutes(5);

  private static final String NO_SECRET = "verify needs a secret";

  /** How much of a body is read, in bytes: more than dueq takes as a payload. */
  private static final int LONGEST = 16 << 20;

  private Webhooks() {}

  /**
   * Returns if the callback was signed with this secret in the last five minutes.
   *
   * @param body the request's body, byte for byte as it came
   * @param headers the request's headers, their names in any case
   * @param secret {@code whsec_} or {@code whpk_}, and base64
   * @throws WebhookException if it was not, with the reason
   */
  public static void verify(byte[] body, Map<String, List<String>> headers, String secret) {
    verify(body, headers, List.of(Objects.requireNonNull(secret, NO_SECRET)), DEFAULT_TOLERANCE);
  }

  /**
   * Reads a request's body, and returns it if the callback was signed with this secret in the last five minutes.
   *
   * @param body the request's body, not read before
   * @param headers the request's headers, their names in any case
   * @param secret {@code whsec_} or {@code whpk_}, and base64
   * @return the body
   * @throws IOException if it cannot be read
   * @throws WebhookException if it was not, with the reason
   */
  public static byte[] verify(InputStream body, Map<String, List<String>> headers, String secret) throws IOException {
    byte[] bytes = body.readNBytes(LONGEST);
    verify(bytes, headers, secret);
    return bytes;
  }

  /**
   * Returns if the callback was signed with one of these secrets, of which there are two while they are rotated.
   *
   * @param body the request's body, byte for byte as it came
   * @param headers the request's headers, their names in any case
   * @param secrets each {@code whsec_} or {@code whpk_}, and base64
   * @param tolerance how old the callback may be, and how far the sender's clock may be ahead
   * @throws WebhookException if it was not, with the reason
   */
  public static void verify(byte[] body, Map<String, List<String>> headers, Collection<String> secrets, Duration tolerance) {
    List<Key> keys = secrets.stream().map(Webhooks::key).toList();
    if (keys.isEmpty()) {
      throw new IllegalArgumentException(NO_SECRET);
    }
    String id = header(headers, "webhook-id");
    String timestamp = header(headers, "webhook-timestamp");
    String signatures = header(headers, "webhook-signature");
    Duration age = Duration.between(instant(timestamp), Instant.now());
    if (age.abs().compareTo(tolerance) > 0) {
      throw new WebhookException(age.isNegative() ? "webhook-timestamp is in the future" : "webhook-timestamp is too long ago");
    }
    if (!isSigned(keys, signatures, id + "." + timestamp + ".", body)) {
      throw new WebhookException("no signature in webhook-signature is right");
    }
    // dueq signs the topic apart from the body.
    if (has(headers, "dueq-topic") || has(headers, "dueq-signature")) {
      String topic = header(headers, "dueq-topic");
      if (!isSigned(keys, header(headers, "dueq-signature"), id + ":" + timestamp + ":" + topic, new byte[0])) {
        throw new WebhookException("no signature in dueq-signature is right for this topic");
      }
    }
  }

  private static boolean isSigned(List<Key> keys, String signatures, String start, byte[] body) {
    boolean signed = false;
    for (Key key : keys) {
      for (String signature : signatures.split(" ")) {
        signed |= key.isRight(signature, start.getBytes(StandardCharsets.UTF_8), body);
      }
    }
    return signed;
  }

  /** Says whether a signature of a header is one of its own and right. */
  private interface Key {
    boolean isRight(String signature, byte[] start, byte[] body);
  }

  private static Key key(String secret) {
    Objects.requireNonNull(secret, NO_SECRET);
    boolean isPublic = secret.startsWith("whpk_");
    String base64 = isPublic ? secret.substring(5) : secret.startsWith("whsec_") ? secret.substring(6) : secret;
    byte[] key;
    try {
      key = Base64.getDecoder().decode(base64);
    } catch (IllegalArgumentException error) {
      throw new IllegalArgumentException("a webhook secret is whsec_ and base64, a public key whpk_ and base64", error);
    }
    if (isPublic) {
      PublicKey known = publicKey(key);
      return (signature, start, body) -> isRight(known, signature, start, body);
    }
    if (key.length == 0) {
      throw new IllegalArgumentException("the webhook secret is empty");
    }
    return (signature, start, body) ->
        MessageDigest.isEqual(signature(key, start, body), signature.getBytes(StandardCharsets.UTF_8));
  }

  private static PublicKey publicKey(byte[] key) {
    // The head of an X.509 key of Ed25519 (RFC 8410), which the 32 bytes follow.
    byte[] encoded = Arrays.copyOf(HexFormat.of().parseHex("302a300506032b6570032100"), 44);
    if (key.length != 32) {
      throw new IllegalArgumentException("a public key is whpk_ and 32 bytes in base64");
    }
    System.arraycopy(key, 0, encoded, 12, 32);
    try {
      PublicKey known = KeyFactory.getInstance("Ed25519").generatePublic(new X509EncodedKeySpec(encoded));
      // This sees whether it is a point of the curve.
      Signature.getInstance("Ed25519").initVerify(known);
      return known;
    } catch (GeneralSecurityException noKey) {
      throw new IllegalArgumentException("a public key is whpk_ and 32 bytes in base64", noKey);
    }
  }

  private static boolean isRight(PublicKey key, String signature, byte[] start, byte[] body) {
    if (!signature.startsWith("v1a,")) {
      return false;
    }
    try {
      Signature verifier = Signature.getInstance("Ed25519");
      verifier.initVerify(key);
      verifier.update(start);
      verifier.update(body);
      return verifier.verify(Base64.getDecoder().decode(signature.substring(4)));
    } catch (SignatureException | IllegalArgumentException noSignature) {
      return false;
    } catch (GeneralSecurityException cannotBe) {
      throw new IllegalStateException(cannotBe);
    }
  }

  private static boolean has(Map<String, List<String>> headers, String name) {
    return headers.keySet().stream().anyMatch(name::equalsIgnoreCase);
  }

  private static String header(Map<String, List<String>> headers, String name) {
    return headers.entrySet().stream()
        .filter(header -> name.equalsIgnoreCase(header.getKey()))
        .map(header -> String.join(" ", header.getValue()))
        .findFirst()
        .orElseThrow(() -> new WebhookException("the header " + name + " is missing"));
  }

  private static Instant instant(String timestamp) {
    try {
      return Instant.ofEpochSecond(Long.parseLong(timestamp));
    } catch (RuntimeException notSeconds) {
      throw new WebhookException("webhook-timestamp is no number of seconds");
    }
  }

  private static byte[] signature(byte[] key, byte[] start, byte[] body) {
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(key, "HmacSHA256"));
      mac.update(start);
      return ("v1," + Base64.getEncoder().encodeToString(mac.doFinal(body))).getBytes(StandardCharsets.UTF_8);
    } catch (GeneralSecurityException cannotBe) {
      throw new IllegalStateException(cannotBe);
    }
  }
}
