/** A JSON value. */
export type Json = null | boolean | number | string | JsonArray | JsonObject;
export type JsonArray = Json[];
export interface JsonObject {
  [key: string]: Json;
}

/** A value that `JSON.stringify` writes without loss. Properties that are undefined are left out. */
export type JsonInput =
  null | boolean | number | string | readonly JsonInput[] | { readonly [key: string]: JsonInput | undefined };

/** The same type, read-only at every level. JSON types stay as they are. */
export type Immutable<T> = [Json] extends [T]
  ? T
  : T extends string | number | boolean | null | undefined
    ? T
    : T extends readonly (infer Item)[]
      ? readonly Immutable<Item>[]
      : { readonly [Key in keyof T]: Immutable<T[Key]> };
