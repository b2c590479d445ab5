/** A stack of what must be closed, last opened first. */
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
