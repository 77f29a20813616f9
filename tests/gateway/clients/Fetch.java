// SPDX-License-Identifier: Apache-2.0
import java.net.HttpURLConnection;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

/** Fetch new|old URL: says what the server says, by one of Java's two clients as it is without any setting. */
public class Fetch {
  public static void main(String[] words) throws Exception {
    URI url = URI.create(words[1]);
    if (words[0].equals("old")) {
      var connection = (HttpURLConnection) url.toURL().openConnection();
      System.out.write(connection.getInputStream().readAllBytes()); // throws when the status is an error
      System.out.flush();
      return;
    }
    var client = HttpClient.newHttpClient();
    var answer = client.send(HttpRequest.newBuilder(url).build(), HttpResponse.BodyHandlers.ofString());
    if (answer.statusCode() != 200) throw new java.io.IOException("status " + answer.statusCode());
    System.out.println(answer.body());
  }
}
