"use strict";(self.rspackChunkcodeact_kernel=self.rspackChunkcodeact_kernel||[]).push([[0],{19(o,e,t){var r=t(20),a=t.n(r),c=t(21),n=(t.n(c))()(a());n.push([o.id,`/* Colours and sizes are those of JupyterLab's theme, so that each theme, light or dark, fits. */

/* The bar, in the output of the cell that holds %agent. */

.codeact-Bar {
  box-sizing: border-box;
  padding: 4px 8px;
  border: var(--jp-border-width) solid var(--jp-border-color2);
  border-radius: var(--jp-border-radius);
  background: var(--jp-layout-color1);
  color: var(--jp-ui-font-color1);
  font-family: var(--jp-ui-font-family);
  font-size: var(--jp-ui-font-size1);
  line-height: 20px;
  container-type: inline-size;
}

.codeact-Bar [hidden] {
  display: none;
}

.codeact-Bar-row {
  display: flex;
  flex-wrap: wrap;
  align-items: center;
  gap: 0 12px;
}

.codeact-Bar-told {
  display: flex;
  flex: 1 1 100px;
  align-items: center;
  gap: 8px;
  min-width: 0;
}

.codeact-Bar-dot {
  flex: none;
  width: 8px;
  height: 8px;
  border-radius: 50%;
  background: var(--jp-border-color1);
}

.codeact-Bar[data-state='working'] .codeact-Bar-dot {
  background: var(--jp-brand-color1);
}

.codeact-Bar[data-state='asking'] .codeact-Bar-dot,
.codeact-Bar[data-state='limit'] .codeact-Bar-dot {
  background: var(--jp-warn-color1);
}

.codeact-Bar[data-state='answered'] .codeact-Bar-dot {
  background: var(--jp-success-color1);
}

.codeact-Bar[data-state='failed'] .codeact-Bar-dot {
  background: var(--jp-error-color1);
}

@media (prefers-reduced-motion: no-preference) {
  .codeact-Bar[data-state='working'] .codeact-Bar-dot {
    animation: codeact-pulse 2s ease-in-out infinite;
  }
}

@keyframes codeact-pulse {
  50% {
    opacity: 0.35;
  }
}

.codeact-Bar-state {
  flex: none;
  font-weight: 600;
}

.codeact-Bar-text {
  overflow: hidden;
  color: var(--jp-ui-font-color2);
  text-overflow: ellipsis;
  white-space: nowrap;
}

.codeact-Bar-figures {
  display: flex;
  align-items: center;
  gap: 8px;
  color: var(--jp-ui-font-color2);
  font-variant-numeric: tabular-nums;
  white-space: nowrap;
}

.codeact-Bar-time {
  min-width: 36px;
  text-align: right;
}

.codeact-Bar-fill {
  display: inline-block;
  width: 40px;
  height: 4px;
  border-radius: 2px;
  background: var(--jp-layout-color3);
}

.codeact-Bar-fillDone {
  display: block;
  height: 100%;
  border-radius: 2px;
  background: var(--jp-ui-font-color2);
}

.codeact-mod-full .codeact-Bar-fillDone {
  background: var(--jp-warn-color1);
}

.codeact-Bar-buttons {
  display: flex;
  margin: 0 -6px 0 auto;
}

@container (max-width: 900px) {
  .codeact-Bar-figures {
    flex: 1 0 100%;
    order: 1;
    padding-left: 16px;
    font-size: var(--jp-ui-font-size0);
    line-height: 16px;
  }

  .codeact-Bar-time {
    min-width: 0;
  }
}

.codeact-Button {
  height: 24px;
  padding: 0 6px;
  border: none;
  border-radius: var(--jp-border-radius);
  background: transparent;
  color: var(--jp-ui-font-color1);
  font: inherit;
  white-space: nowrap;
  cursor: pointer;
}

.codeact-Button:hover:enabled {
  background: var(--jp-layout-color2);
}

.codeact-Button:disabled {
  color: var(--jp-ui-font-color3);
  cursor: default;
}

.codeact-Button[aria-pressed='true'] {
  background: var(--jp-layout-color2);
  box-shadow: inset 0 -2px var(--jp-brand-color1);
}

.codeact-Button:focus-visible,
.codeact-Question:focus-visible,
.codeact-Question-diff:focus-visible {
  outline: 2px solid var(--jp-brand-color1);
  outline-offset: -1px;
}

.codeact-Bar-steering {
  display: flex;
  gap: 8px;
  margin: 4px 0 2px;
}

.codeact-Bar-note,
.codeact-Question-reason {
  flex: 1 1 120px;
  box-sizing: border-box;
  height: 24px;
  padding: 0 6px;
  border: var(--jp-border-width) solid var(--jp-border-color1);
  border-radius: var(--jp-border-radius);
  background: var(--jp-layout-color0);
  color: var(--jp-ui-font-color1);
  font: inherit;
}

.codeact-Bar-note:focus,
.codeact-Question-reason:focus {
  border-color: var(--jp-brand-color1);
  outline: none;
}

.codeact-Bar-note::placeholder,
.codeact-Question-reason::placeholder {
  color: var(--jp-ui-font-color2);
}

.codeact-Bar-problem {
  margin: 4px 0 2px;
  padding-left: 8px;
  border-left: 2px solid var(--jp-warn-color1);
}

.codeact-Said {
  position: absolute;
  overflow: hidden;
  width: 1px;
  height: 1px;
  clip-path: inset(50%);
}

/* A question. */

.codeact-Question {
  margin: 6px 0 2px;
  padding: 6px 8px;
  border-left: 2px solid var(--jp-warn-color1);
  background: var(--jp-layout-color0);
}

.codeact-Question.codeact-mod-answered {
  opacity: 0.6;
}

.codeact-Question-title {
  font-weight: 600;
}

.codeact-Question-why {
  color: var(--jp-ui-font-color2);
}

.codeact-Question-code,
.codeact-Question-diff {
  overflow: auto;
  max-height: 300px;
  margin: 6px 0;
  border: var(--jp-border-width) solid var(--jp-cell-editor-border-color);
  background: var(--jp-cell-editor-background);
}

.codeact-Question.codeact-mod-editing .codeact-Question-code {
  border-color: var(--jp-brand-color1);
}

.codeact-Question-diff {
  padding: 4px 6px;
  font-family: var(--jp-code-font-family);
  font-size: var(--jp-code-font-size);
  line-height: var(--jp-code-line-height);
  white-space: pre;
}

.codeact-Question-diff span {
  display: block;
  width: fit-content;
  min-width: 100%;
}

.codeact-mod-added {
  background: color-mix(in srgb, var(--jp-success-color1) 18%, transparent);
}

.codeact-mod-removed {
  background: color-mix(in srgb, var(--jp-error-color1) 18%, transparent);
}

.codeact-mod-place {
  color: var(--jp-ui-font-color2);
}

.codeact-Question-actions {
  display: flex;
  flex-wrap: wrap;
  align-items: center;
  gap: 6px;
}

.codeact-Question-actions .codeact-Button {
  border: var(--jp-border-width) solid var(--jp-border-color1);
}

.codeact-Question-actions .codeact-mod-primary {
  border-color: var(--jp-brand-color1);
}

.codeact-Question kbd {
  margin-left: 6px;
  color: var(--jp-ui-font-color2);
  font-family: var(--jp-code-font-family);
  font-size: var(--jp-ui-font-size0);
}

.codeact-Question-fault {
  color: var(--jp-error-color1);
}

/* The cells of a run. */

.codeact-Cell .jp-Cell-inputWrapper {
  position: relative;
}

.codeact-Cell[data-codeact-note]:not([data-codeact-note=''])::after {
  position: absolute;
  z-index: 1;
  top: 7px;
  right: 12px;
  max-width: 60%;
  overflow: hidden;
  padding: 0 4px;
  border-radius: var(--jp-border-radius);
  background: var(--jp-cell-editor-background);
  color: var(--jp-ui-font-color2);
  content: attr(data-codeact-note);
  font-family: var(--jp-ui-font-family);
  font-size: var(--jp-ui-font-size0);
  font-variant-numeric: tabular-nums;
  line-height: 18px;
  pointer-events: none;
  text-overflow: ellipsis;
  white-space: nowrap;
}

.codeact-Cell[data-codeact-kind='agent']::after {
  background: var(--jp-layout-color0);
}

.codeact-Cell[data-codeact-state='error']::after,
.codeact-Cell[data-codeact-state='timeout']::after,
.codeact-Cell[data-codeact-state='died']::after {
  color: var(--jp-error-color1);
}

.codeact-Toggle {
  width: 20px;
  height: 20px;
  padding: 0;
  line-height: 20px;
  vertical-align: bottom;
}

.codeact-Toggle::before {
  content: '▾';
}

.codeact-Toggle[aria-expanded='false']::before {
  content: '▸';
}

/* While an agent works, what a person reads stays where it is, also if cells above it grow or fold. */
.jp-Notebook.codeact-mod-live .jp-Cell {
  overflow-anchor: auto;
}
`,""]),t.d(e,{},{A:n})},21(o){o.exports=function(o){var e=[];return e.toString=function(){return this.map(function(e){var t="",r=void 0!==e[5];return e[4]&&(t+="@supports (".concat(e[4],") {")),e[2]&&(t+="@media ".concat(e[2]," {")),r&&(t+="@layer".concat(e[5].length>0?" ".concat(e[5]):""," {")),t+=o(e),r&&(t+="}"),e[2]&&(t+="}"),e[4]&&(t+="}"),t}).join("")},e.i=function(o,t,r,a,c){"string"==typeof o&&(o=[[null,o,void 0]]);var n={};if(r)for(var i=0;i<this.length;i++){var d=this[i][0];null!=d&&(n[d]=!0)}for(var l=0;l<o.length;l++){var s=[].concat(o[l]);r&&n[s[0]]||(void 0!==c&&(void 0===s[5]||(s[1]="@layer".concat(s[5].length>0?" ".concat(s[5]):""," {").concat(s[1],"}")),s[5]=c),t&&(s[2]&&(s[1]="@media ".concat(s[2]," {").concat(s[1],"}")),s[2]=t),a&&(s[4]?(s[1]="@supports (".concat(s[4],") {").concat(s[1],"}"),s[4]=a):s[4]="".concat(a)),e.push(s))}},e}},20(o){o.exports=function(o){return o[1]}},13(o){var e=[];function t(o){for(var t=-1,r=0;r<e.length;r++)if(e[r].identifier===o){t=r;break}return t}function r(o,r){for(var a={},c=[],n=0;n<o.length;n++){var i=o[n],d=r.base?i[0]+r.base:i[0],l=a[d]||0,s="".concat(d," ").concat(l);a[d]=l+1;var p=t(s),u={css:i[1],media:i[2],sourceMap:i[3],supports:i[4],layer:i[5]};if(-1!==p)e[p].references++,e[p].updater(u);else{var f=function(o,e){var t=e.domAPI(e);return t.update(o),function(e){e?(e.css!==o.css||e.media!==o.media||e.sourceMap!==o.sourceMap||e.supports!==o.supports||e.layer!==o.layer)&&t.update(o=e):t.remove()}}(u,r);r.byIndex=n,e.splice(n,0,{identifier:s,updater:f,references:1})}c.push(s)}return c}o.exports=function(o,a){var c=r(o=o||[],a=a||{});return function(o){o=o||[];for(var n=0;n<c.length;n++){var i=t(c[n]);e[i].references--}for(var d=r(o,a),l=0;l<c.length;l++){var s=t(c[l]);0===e[s].references&&(e[s].updater(),e.splice(s,1))}c=d}}},15(o){var e={};o.exports=function(o,t){var r=function(o){if(void 0===e[o]){var t=document.querySelector(o);if(window.HTMLIFrameElement&&t instanceof window.HTMLIFrameElement)try{t=t.contentDocument.head}catch(o){t=null}e[o]=t}return e[o]}(o);if(!r)throw Error("Couldn't find a style target. This probably means that the value for the 'insert' parameter is invalid.");r.appendChild(t)}},17(o){o.exports=function(o){var e=document.createElement("style");return o.setAttributes(e,o.attributes),o.insert(e,o.options),e}},16(o,e,t){o.exports=function(o){var e=t.nc;e&&o.setAttribute("nonce",e)}},14(o){o.exports=function(o){if("u"<typeof document)return{update:function(){},remove:function(){}};var e=o.insertStyleElement(o);return{update:function(t){var r,a,c;r="",t.supports&&(r+="@supports (".concat(t.supports,") {")),t.media&&(r+="@media ".concat(t.media," {")),(a=void 0!==t.layer)&&(r+="@layer".concat(t.layer.length>0?" ".concat(t.layer):""," {")),r+=t.css,a&&(r+="}"),t.media&&(r+="}"),t.supports&&(r+="}"),(c=t.sourceMap)&&"u">typeof btoa&&(r+="\n/*# sourceMappingURL=data:application/json;base64,".concat(btoa(unescape(encodeURIComponent(JSON.stringify(c))))," */")),o.styleTagTransform(r,e,o.options)},remove:function(){var o;null===(o=e).parentNode||o.parentNode.removeChild(o)}}}},18(o){o.exports=function(o,e){if(e.styleSheet)e.styleSheet.cssText=o;else{for(;e.firstChild;)e.removeChild(e.firstChild);e.appendChild(document.createTextNode(o))}}},12(o,e,t){var r=t(13),a=t.n(r),c=t(14),n=t.n(c),i=t(15),d=t.n(i),l=t(16),s=t.n(l),p=t(17),u=t.n(p),f=t(18),v=t.n(f),h=t(19),g={};g.styleTagTransform=v(),g.setAttributes=s(),g.insert=d().bind(null,"head"),g.domAPI=n(),g.insertStyleElement=u(),a()(h.A,g),h.A&&h.A.locals&&h.A.locals}}]);