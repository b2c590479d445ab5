/**
 * Calls that come while one is under way share the next one, with its error: each call is answered by work that began after it. The shared work
 * runs in the asynchronous context of the first of its calls.
 */
export function together<Item>(
  work: (items: readonly Item[]) => Promise<void>,
): (item: Item) => Promise<void> {
  let running: Promise<void> | undefined;
  let next: { readonly items: Item[]; readonly done: Promise<void> } | undefined;

  const begin = (items: readonly Item[]): Promise<void> =>
    (running = work(items).finally(() => (running = undefined)));

  return (item) => {
    if (next) {
      next.items.push(item);
      return next.done;
    }
    if (!running) return begin([item]);
    const items = [item];
    const done = running
      .catch(() => undefined)
      .then(() => {
        next = undefined;
        return begin(items);
      });
    next = { items, done };
    return done;
  };
}
