package dev.dueq;

import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.function.Function;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * A list of the server, page by page as it is read. Each iterator begins anew.
 *
 * @param <T> what is listed
 */
public final class Pages<T> implements Iterable<T> {
  /** Some items, and the cursor of those that follow; null at the end. */
  record Page<T>(List<T> items, String next) {}

  private final Function<String, Page<T>> pageAt;

  Pages(Function<String, Page<T>> pageAt) {
    this.pageAt = pageAt;
  }

  /** The items, each page requested when it is reached. */
  @Override
  public Iterator<T> iterator() {
    return new Iterator<>() {
      private Page<T> page = pageAt.apply(null);
      private Iterator<T> items = page.items().iterator();

      @Override
      public boolean hasNext() {
        while (!items.hasNext() && page.next() != null) {
          page = pageAt.apply(page.next());
          items = page.items().iterator();
        }
        return items.hasNext();
      }

      @Override
      public T next() {
        if (!hasNext()) {
          throw new NoSuchElementException();
        }
        return items.next();
      }
    };
  }

  /** The items as a stream, each page requested when it is reached. */
  public Stream<T> stream() {
    return StreamSupport.stream(spliterator(), false);
  }
}
