/** A stack of functions that close parts. The part that was opened last is closed first. */
export class Closers {
  readonly #closers: (() => Promise<unknown>)[] = [];
  add<Resource>(resource: Resource, close: (resource: Resource) => Promise<unknown>): Resource {
    this.#closers.push(() => close(resource));
    return resource;
  }
  async close(): Promise<void> {
    for (const close of this.#closers.splice(0).reverse()) await close();
  }
}
