declare module 'core-js-pure/stable/url' {
  const constructor: typeof URL;
  export default constructor;
}
declare module 'core-js-pure/stable/url-search-params' {
  const constructor: typeof URLSearchParams;
  export default constructor;
}
